#!/bin/sh
# Verify a webhook delivery: verify.sh HEADER < BODY, with the signing secret in WEBHOOK_SECRET.
# Exits with status 0 if the delivery is authentic, else with 1 and the reason. With a folder in WEBHOOK_EVENTS it stores
# each event there once, and prints "repeated" for one that is stored already.
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

# The body goes through a file: a shell variable would lose its last newlines.
body=$(mktemp ${WEBHOOK_EVENTS:+-p "$WEBHOOK_EVENTS"})
trap 'rm -f "$body"' EXIT
cat >"$body"
hmac() { openssl dgst -sha256 -hmac "$1" -r | cut -d ' ' -f 1; }
expected=$({ printf '%s.' "$timestamp"; cat "$body"; } | hmac "$WEBHOOK_SECRET")
[ "${#expected}" -eq 64 ] || refuse 'openssl failed'

# The script compares HMACs under a random key, so the time of a comparison reveals nothing about the signature.
# During a rotation there are two signatures; one match is enough.
random=$(openssl rand -hex 32) || refuse 'openssl failed'
[ "${#random}" -eq 64 ] || refuse 'openssl failed'
want=$(printf %s "$expected" | hmac "$random")
[ "${#want}" -eq 64 ] || refuse 'openssl failed'

# store stores the event under its dedupe_key. A link fails if the name exists.
store() {
  [ -n "${WEBHOOK_EVENTS:-}" ] || { echo verified; return; }
  key=$(sed -n 's/.*"dedupe_key":"\([^"\\]*\)"}$/\1/p' "$body")
  [ -n "$key" ] || refuse 'no dedupe_key'
  name=$(printf %s "$key" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
  [ "${#name}" -eq 64 ] || refuse 'openssl failed'
  if ln "$body" "$WEBHOOK_EVENTS/$name" 2>/dev/null; then
    echo verified
  elif [ -e "$WEBHOOK_EVENTS/$name" ]; then
    echo repeated
  else
    refuse 'cannot store the event'
  fi
}

set -f
for signature in $signatures; do
  signature=$(printf %s "$signature" | tr A-F a-f)
  if [ "$(printf %s "$signature" | hmac "$random")" = "$want" ]; then
    store
    exit 0
  fi
done
refuse 'no signature matches this secret and body'
