package send

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"examprep.dev/server/webhooks"
)

const (
	// maxResponseKept is how many bytes of a response the delivery log keeps.
	maxResponseKept = 512
	// maxResponseRedacted is how many bytes redact examines. It masks a secret that begins among the kept bytes and ends after them.
	maxResponseRedacted = 2 * maxResponseKept
	// maxResponse is how much of a response is read. The rest stays on the connection, which is closed.
	maxResponse = 64 << 10
	mask        = "[masked]"
)

// secretShapes matches what looks like a secret. The groups are text before and after it that is kept.
var secretShapes = regexp.MustCompile(`(?i)` + strings.Join([]string{
	webhooks.SecretPrefix + `[\w\-]*`,   // signing secret
	`service_[0-9a-f]{9,}`,              // API key; its prefix, which is public, has 8 digits
	`(?-i:eyJ)[\w\-]{5,}(?:\.[\w\-]*)*`, // JWT
	`-----BEGIN [A-Z ]*PRIVATE KEY-----.*`,
	`(\bv[0-2]=)[0-9a-f]{8,}`, // signature
	`(\bbearer\s+["']?)[\w\-.~+/=]{8,}`,
	`(\bbasic\s+["']?)[\w+/=]{16,}`,
	`((?:passw(?:or)?d|secret|token|\bkey|api[_-]?key|authorization|cookie)["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?)[^\s"',;&<>{}]+`,
	`(://)[^\s/@:]+:[^\s/@]+(@)`, // user:password@ of a URL
}, "|"))

const secretMasked = "${1}${2}${3}${4}${5}" + mask + "${6}"

// redact makes the start of a response safe to store and show: one line of at most maxResponseKept bytes of valid UTF-8, without
// control and formatting characters. It masks the known secrets and what looks like a secret.
func redact(start []byte, known []string) string {
	text := printable(start[:min(len(start), maxResponseRedacted)])
	var exact []string
	for _, secret := range known {
		if secret = printable([]byte(secret)); secret != "" {
			exact = append(exact, secret, mask)
		}
	}
	text = strings.NewReplacer(exact...).Replace(text)
	return strings.TrimSpace(truncate(secretShapes.ReplaceAllString(text, secretMasked), maxResponseKept))
}

// printable returns raw with each white space as a space, each byte that is not UTF-8 as U+FFFD, and without control and
// formatting characters.
func printable(raw []byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r):
			return r
		default:
			return -1
		}
	}, string(raw))
}

// truncate returns at most limit bytes of text, cut between characters.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// knownSecrets returns the texts that only the receiver and we know: the signing secrets and the signatures of this attempt.
func knownSecrets(secrets []string, signature string) []string {
	known := slices.Clone(secrets)
	for element := range strings.SplitSeq(signature, ",") {
		if value, ok := strings.CutPrefix(element, "v1="); ok {
			known = append(known, value)
		}
	}
	return known
}

// readResponse reads a response's body up to the limit and returns its start. It returns nothing of a compressed body, which was
// not asked for and cannot be redacted. It does not read after status 101, which hands over the connection without a deadline.
func readResponse(response *http.Response) (start []byte, err error) {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil
	}
	var prefix prefixWriter
	body := io.LimitReader(response.Body, maxResponse)
	if response.ContentLength != 0 && response.Header.Get("Content-Encoding") == "" {
		body = io.TeeReader(body, &prefix)
	}
	_, err = io.Copy(io.Discard, body)
	return prefix, err
}

// prefixWriter keeps the first bytes that are written to it.
type prefixWriter []byte

func (w *prefixWriter) Write(p []byte) (int, error) {
	*w = append(*w, p[:min(len(p), maxResponseRedacted-len(*w))]...)
	return len(p), nil
}
