#!/bin/sh
# Verify a webhook delivery: verify.sh HEADER < BODY, with the signing secret in WEBHOOK_SECRET.
# Exits with status 0 if the delivery is authentic, else with 1 and the reason.
#
# Use it for tests, not on a server: each user who can list this machine's processes sees the secret.
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
    *=*) ;; # other schemes are ignored
    *) refuse 'malformed header' ;;
  esac
done
[ -n "$timestamp" ] || refuse 'no timestamp'
offset=$(($(date +%s) - timestamp))
[ "${offset#-}" -le 300 ] || refuse 'timestamp too far from now'

# The HMAC reads the body from standard input: a shell variable would lose its last newlines.
hmac() { openssl dgst -sha256 -hmac "$1" -r | cut -d ' ' -f 1; }
expected=$({ printf '%s.' "$timestamp"; cat; } | hmac "$WEBHOOK_SECRET")
[ "${#expected}" -eq 64 ] || refuse 'openssl failed'

# The script compares HMACs under a random key, so the time of a comparison reveals nothing about the signature.
# During a rotation there are two signatures; one match is enough.
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
refuse 'no signature matches this secret and body'
