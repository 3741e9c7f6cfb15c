package client_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/client"
)

const (
	secret = "whsec_0123456789abcdef"
	body   = `{"event":"mock_attempt.scored","created":1767225600,"data":{},"id":"x"}`
)

var signedAt = time.Unix(1767225600, 0)

// sign follows the specification's words, not the code under test.
func sign(secret, body string, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return hex.EncodeToString(mac.Sum(nil))
}

func TestADeliveryIsBelievedOnlyWhenAllOfItHolds(t *testing.T) {
	t.Parallel()
	right := "t=1767225600,v1=" + sign(secret, body, signedAt)
	for name, c := range map[string]struct {
		header, body, secret string
		now                  time.Time
		want                 client.SignatureReason
	}{
		"as it was sent":              {right, body, secret, signedAt, ""},
		"at the edge of tolerance":    {right, body, secret, signedAt.Add(300 * time.Second), ""},
		"sender's clock ahead":        {right, body, secret, signedAt.Add(-300 * time.Second), ""},
		"signed by another, too":      {"t=1767225600,v1=" + strings.Repeat("00", 32) + ",v1=" + sign(secret, body, signedAt), body, secret, signedAt, ""},
		"a later scheme beside it":    {right + ",v2=whatever", body, secret, signedAt, ""},
		"replayed too late":           {right, body, secret, signedAt.Add(301 * time.Second), client.StaleTimestamp},
		"from the future":             {right, body, secret, signedAt.Add(-301 * time.Second), client.StaleTimestamp},
		"timestamp changed":           {strings.Replace(right, "t=1767225600", "t=1767225601", 1), body, secret, signedAt, client.WrongSignature},
		"body changed":                {right, body + " ", secret, signedAt, client.WrongSignature},
		"another secret":              {right, body, "whsec_other", signedAt, client.WrongSignature},
		"no secret":                   {"t=1767225600,v1=" + sign("", body, signedAt), body, "", signedAt, client.NoSecret},
		"signature cut short":         {right[:len(right)-2], body, secret, signedAt, client.WrongSignature},
		"no signature":                {"t=1767225600", body, secret, signedAt, client.WrongSignature},
		"empty":                       {"", body, secret, signedAt, client.MalformedHeader},
		"no timestamp":                {"v1=" + sign(secret, body, signedAt), body, secret, signedAt, client.MalformedHeader},
		"two timestamps":              {"t=1,t=1767225600,v1=00", body, secret, signedAt, client.MalformedHeader},
		"timestamp that is no number": {"t=1e9,v1=00", body, secret, signedAt, client.MalformedHeader},
	} {
		t.Run(name, func(t *testing.T) {
			err := client.Verify(c.header, []byte(c.body), c.secret, c.now, client.Tolerance)
			var refused *client.SignatureError
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && !errors.As(err, &refused):
				t.Errorf("got %v, want %s", err, c.want)
			case c.want != "" && refused.Reason != c.want:
				t.Errorf("got %s, want %s", refused.Reason, c.want)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1767225600,v1="+sign(secret, body, signedAt), []byte(body))
	f.Add("t=,v1=,,", []byte{})
	f.Add("t=-1,v1=zz", []byte("x"))
	f.Fuzz(func(t *testing.T, header string, payload []byte) {
		if client.Verify(header, payload, secret, signedAt, client.Tolerance) != nil {
			return
		}
		var seconds int64
		for element := range strings.SplitSeq(header, ",") {
			_, _ = fmt.Sscanf(element, "t=%d", &seconds)
		}
		if !strings.Contains(strings.ToLower(header), sign(secret, string(payload), time.Unix(seconds, 0))) {
			t.Errorf("believed %q over %q", header, payload)
		}
	})
}
