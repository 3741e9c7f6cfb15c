package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// SignatureHeader carries t=<unix seconds>,v1=<hex>[,v1=<hex>…] (docs/spec.md, part 6).
const SignatureHeader = "Service-Signature"

// Sign returns the signature header of body at a time: one v1 for each secret, t first, no spaces.
func Sign(secrets []string, at time.Time, body []byte) string {
	header := make([]byte, 0, 16+len(secrets)*(4+2*sha256.Size))
	header = append(header, "t="...)
	header = strconv.AppendInt(header, at.Unix(), 10)
	stamp := header[2:]
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = mac.Write(stamp)
		_, _ = mac.Write([]byte{'.'})
		_, _ = mac.Write(body)
		header = append(header, ",v1="...)
		header = hex.AppendEncode(header, mac.Sum(nil))
	}
	return string(header)
}
