#!/bin/sh
# Verify a webhook delivery: verify.sh HEADER < BODY, with the signing secret in WEBHOOK_SECRET.
# Ends with status 0 when the delivery may be believed, else with 1 and the reason.
#
# openssl shows the secret to whoever may list this machine's processes: for trying things out, not for a server.
set -eu
LC_ALL=C
export LC_ALL
refuse() { echo "refused: $1" >&2; exit 1; }

[ -n "${WEBHOOK_SECRET:-}" ] || refuse 'no secret'
header=$1
[ "${#header}" -le 4096 ] || refuse 'header too long'
timestamp='' signatures=''
rest=$header,
while [ -n "$rest" ]; do
  element=${rest%%,*} rest=${rest#*,}
  case $element in
    t=*)
      [ -z "$timestamp" ] || refuse 'two timestamps'
      timestamp=${element#t=}
      case $timestamp in
        '' | *[!0-9]* | 0?* | ???????????????????*) refuse 'malformed timestamp' ;;
      esac ;;
    v1=*) signatures="$signatures ${element#v1=}" ;;
    *=*) ;; # other schemes may stand beside v1
    *) refuse 'malformed header' ;;
  esac
done
[ -n "$timestamp" ] || refuse 'no timestamp'
away=$(($(date +%s) - timestamp))
[ "${away#-}" -le 300 ] || refuse 'timestamp too far from now'

# The body goes from standard input into the HMAC byte for byte: a shell variable would lose its last line ends.
hmac() { openssl dgst -sha256 -hmac "$1" -r | cut -d ' ' -f 1; }
expected=$({ printf '%s.' "$timestamp"; cat; } | hmac "$WEBHOOK_SECRET")
[ "${#expected}" -eq 64 ] || refuse 'openssl failed'

# What is compared are hashes under a key made up on the spot, so the time it takes tells nothing of the signature.
# While a secret is rotated there are two signatures: one that fits is enough.
key=$(openssl rand -hex 32) || refuse 'openssl failed'
[ "${#key}" -eq 64 ] || refuse 'openssl failed'
want=$(printf %s "$expected" | hmac "$key")
[ "${#want}" -eq 64 ] || refuse 'openssl failed'
set -f
for signature in $signatures; do
  signature=$(printf %s "$signature" | tr A-F a-f)
  if [ "$(printf %s "$signature" | hmac "$key")" = "$want" ]; then
    echo verified
    exit 0
  fi
done
refuse 'no signature is by this secret over this body'
