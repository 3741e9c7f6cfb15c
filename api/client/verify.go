package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader carries a delivery's signature: t=<unix seconds>,v1=<hex HMAC-SHA256>[,v1=…].
const SignatureHeader = "Service-Signature"

// Tolerance is the largest accepted difference between a delivery's timestamp and now (docs/spec.md, part 6).
const Tolerance = 300 * time.Second

// maxHeader bounds the header that Verify reads: a timestamp and a handful of signatures.
const maxHeader = 4096

// SignatureError is the reason that a delivery must not be trusted.
type SignatureError struct {
	// Reason is one of the constants below.
	Reason SignatureReason
	Detail string
}

// SignatureReason names the rule that a delivery broke.
type SignatureReason string

// The reasons.
const (
	// MalformedHeader: not of the form t=…,v1=….
	MalformedHeader SignatureReason = "malformed_header"
	// StaleTimestamp: further from now than the tolerance.
	StaleTimestamp SignatureReason = "stale_timestamp"
	// WrongSignature: none of the signatures is by this secret over this body.
	WrongSignature SignatureReason = "wrong_signature"
	// NoSecret: the receiver has no secret to verify with. Any sender could sign with an empty one.
	NoSecret SignatureReason = "no_secret"
)

func (e *SignatureError) Error() string {
	return fmt.Sprintf("webhook signature: %s: %s", e.Reason, e.Detail)
}

// Verify returns nil when header signs exactly body with secret, not further than tolerance from now. body is the raw
// request body before any parsing; secret is the whole text shown at registration, whsec_ included. While a secret is
// rotated a delivery carries a signature by each: one that fits is enough.
func Verify(header string, body []byte, secret string, now time.Time, tolerance time.Duration) error {
	if secret == "" {
		return &SignatureError{NoSecret, "the secret is empty"}
	}
	at, signatures, err := parseSignature(header)
	if err != nil {
		return err
	}
	if age := now.Sub(at); age > tolerance || age < -tolerance {
		return &SignatureError{StaleTimestamp, fmt.Sprintf("signed %s from now", age.Round(time.Second))}
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix(), 10)))
	_, _ = mac.Write([]byte{'.'})
	_, _ = mac.Write(body)
	want := mac.Sum(nil)
	for _, signature := range signatures {
		if hmac.Equal(signature, want) {
			return nil
		}
	}
	return &SignatureError{WrongSignature, "no signature is by this secret over this body"}
}

// parseSignature reads a header. Schemes other than v1 are skipped: a later version can send one in addition.
func parseSignature(header string) (at time.Time, signatures [][]byte, err error) {
	if len(header) > maxHeader {
		return at, nil, &SignatureError{MalformedHeader, "too long"}
	}
	stamped := false
	for element := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(element, "=")
		switch {
		case !ok:
			return at, nil, &SignatureError{MalformedHeader, "an element is not name=value"}
		case name == "t" && stamped:
			return at, nil, &SignatureError{MalformedHeader, "two timestamps"}
		case name == "t":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil || strconv.FormatInt(seconds, 10) != value || seconds < 0 {
				return at, nil, &SignatureError{MalformedHeader, "t is not a number of seconds"}
			}
			at, stamped = time.Unix(seconds, 0), true
		case name == "v1":
			if signature, err := hex.DecodeString(value); err == nil && len(signature) == sha256.Size {
				signatures = append(signatures, signature)
			}
		}
	}
	if !stamped {
		return at, nil, &SignatureError{MalformedHeader, "no timestamp"}
	}
	return at, signatures, nil
}
