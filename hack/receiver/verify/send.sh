#!/bin/sh
# Send your receiver a delivery as the service would: send.sh URL < BODY, with the signing secret in WEBHOOK_SECRET.
# Further arguments go to curl, such as --cacert ca.pem. Prints the receiver's status. Exits with status 0 for any 2xx.
set -eu
url=$1
shift
body=$(mktemp)
trap 'rm -f "$body"' EXIT
cat >"$body"
timestamp=$(date +%s)
signature=$({ printf '%s.' "$timestamp"; cat "$body"; } | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" -r | cut -d ' ' -f 1)
status=$(curl --silent --show-error --max-time 10 --output /dev/null --write-out '%{http_code}' "$@" \
  --header 'Content-Type: application/json' --header "Webhook-Id: test-$timestamp" \
  --header "Service-Signature: t=$timestamp,v1=$signature" --data-binary "@$body" "$url")
echo "$status"
case $status in 2??) ;; *) exit 1 ;; esac
