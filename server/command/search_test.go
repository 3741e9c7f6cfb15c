package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// A needle is one way in which a learner reference, or a part of it, may stand somewhere.
type needle struct {
	how  string
	text []byte
}

// needlesOf are the ways in which a reference would betray itself: as it is, or escaped, encoded or hashed without a
// secret, whole or cut off.
func needlesOf(reference string) []needle {
	digest := sha256.Sum256([]byte(reference))
	found := []needle{
		{"SHA-256", digest[:]},
		{"SHA-256 in hex", []byte(hex.EncodeToString(digest[:]))},
		{"SHA-256 in base64", []byte(base64.RawStdEncoding.EncodeToString(digest[:]))},
	}
	for _, part := range []string{reference, headOf(reference), tailOf(reference)} {
		asJSON := jsonText(part)
		for how, text := range map[string]string{
			"as it is":                     part,
			"in JSON":                      asJSON,
			"in JSON for HTML":             htmlSafeJSON(part),
			"in JSON in ASCII":             asciiJSON(part, utf8.RuneSelf),
			"in JSON, all escaped":         asciiJSON(part, 0),
			"in JSON in JSON":              jsonText(asJSON),
			"quoted by Go":                 unquoted(strconv.Quote(part)),
			"quoted by Go in ASCII":        unquoted(strconv.QuoteToASCII(part)),
			"quoted by Go in JSON":         jsonText(unquoted(strconv.Quote(part))),
			"in a query":                   url.QueryEscape(part),
			"in a path":                    url.PathEscape(part),
			"percent-encoded":              percentEncoded(part),
			"in HTML":                      html.EscapeString(part),
			"with backslashes doubled":     strings.ReplaceAll(part, `\`, `\\`),
			"with quotes doubled":          strings.ReplaceAll(part, `'`, `''`),
			"in hex":                       hex.EncodeToString([]byte(part)),
			"in base64":                    base64Core(part, 0, base64.RawStdEncoding),
			"in base64, one byte on":       base64Core(part, 1, base64.RawStdEncoding),
			"in base64, two bytes on":      base64Core(part, 2, base64.RawStdEncoding),
			"in base64 for URLs":           base64Core(part, 0, base64.RawURLEncoding),
			"in base64 for URLs, one on":   base64Core(part, 1, base64.RawURLEncoding),
			"in base64 for URLs, two on":   base64Core(part, 2, base64.RawURLEncoding),
			"in UTF-16 with zeros between": strings.Join(strings.Split(part, ""), "\x00"),
		} {
			found = append(found, needle{how, []byte(text)})
		}
	}
	return found
}

const partBytes = 12

func headOf(reference string) string {
	for i := range reference {
		if i >= partBytes {
			return reference[:i]
		}
	}
	return reference
}

func tailOf(reference string) string {
	at := max(0, len(reference)-partBytes)
	for !utf8.RuneStart(reference[at]) {
		at--
	}
	return reference[at:]
}

func jsonText(text string) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always is
	return unquoted(strings.TrimSpace(buffer.String()))
}

func htmlSafeJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return unquoted(string(quoted))
}

// asciiJSON escapes every character from the given one on.
func asciiJSON(text string, from rune) string {
	escaped := ""
	for _, r := range text {
		switch {
		case r < from:
			escaped += jsonText(string(r))
		case r > 0xFFFF:
			r -= 0x10000
			escaped += fmt.Sprintf(`\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			escaped += fmt.Sprintf(`\u%04x`, r)
		}
	}
	return escaped
}

func unquoted(text string) string { return text[1 : len(text)-1] }

func percentEncoded(text string) string {
	encoded := ""
	for _, b := range []byte(text) {
		encoded += fmt.Sprintf("%%%02X", b)
	}
	return encoded
}

// base64Core returns the part of the encoded text that does not depend on its neighbours, given the number of bytes before it.
func base64Core(text string, before int, encoding *base64.Encoding) string {
	padded := encoding.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
	from := []int{0, 2, 3}[before]
	return padded[from : (before+len(text))/3*4]
}

// search returns how a haystack betrays a reference, "" when it does not. It ignores case.
func search(haystack []byte, reference string) string {
	lower := bytes.ToLower(haystack)
	for _, n := range needlesOf(reference) {
		if at := max(bytes.Index(haystack, n.text), bytes.Index(lower, bytes.ToLower(n.text))); at >= 0 {
			return fmt.Sprintf("%s: %q", n.how, haystack[max(0, at-60):min(len(haystack), at+len(n.text)+60)])
		}
	}
	return ""
}

func TestTheSearchFindsEveryFormOfALearnerReference(t *testing.T) {
	noise := slices.Repeat([]byte(`{"level":"DEBUG","msg":"request","id":"0193"}`+"\n"), 50)
	for _, learner := range learnerReferences {
		if found := search(noise, learner); found != "" {
			t.Errorf("%q was found in noise %s", learner, found)
		}
		for _, n := range needlesOf(learner) {
			if len(n.text) < partBytes {
				t.Errorf("%q %s is too short to be told from chance: %q", learner, n.how, n.text)
			}
			if search(slices.Concat(noise, n.text, noise), learner) == "" {
				t.Errorf("%q was not found %s", learner, n.how)
			}
		}
		for _, other := range learnerReferences {
			if other != learner && search([]byte(other), learner) != "" {
				t.Errorf("%q cannot be told from %q", learner, other)
			}
		}
	}
}
