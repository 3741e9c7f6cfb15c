package webhooks

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxKeptAnswer is how many bytes of an answer the delivery log keeps.
	maxKeptAnswer = 512
	// answerWindow is how many are looked at: what begins before the bound is recognised though it ends behind it.
	answerWindow = 2 * maxKeptAnswer
	// minFragment is the shortest piece of a secret that is masked. A shorter one helps nobody to guess the rest.
	minFragment = 8 // as many as a uint64 holds
	mask        = "[masked]"
)

// A shape is what a secret looks like, whoever's it is. Group 1 is what is masked.
type shape struct {
	// hints: without one of them, in lower case, the text holds none of this shape. Looking for them is much faster.
	hints   []string
	pattern *regexp.Regexp
}

// secretShapes are the shapes that have a mark. A key is told from words like service_unavailable by its digits; the
// first 8 of them are its public name.
var secretShapes = []shape{
	{[]string{secretPrefix}, regexp.MustCompile(`(` + secretPrefix + `[\w\-\x{FFFD}]*)`)},
	{[]string{"service_"}, regexp.MustCompile(`(?i)(service_[0-9a-f\x{FFFD}]{9,})`)},
	{[]string{"v0=", "v1=", "v2="}, regexp.MustCompile(`(?i)v[0-2]=([0-9a-f]{8,})`)},
	{[]string{"eyj"}, regexp.MustCompile(`(eyJ[\w\-]{5,}(?:\.[\w\-]*)*)`)}, // a JWT, however little of it is there
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\bbearer\s+["']?([\w\-.~+/=]{8,})`)},
	{[]string{"basic"}, regexp.MustCompile(`(?i)\bbasic\s+["']?([\w+/=]{16,})`)},
	{
		[]string{"passw", "secret", "token", "key", "authorization", "cookie"},
		regexp.MustCompile(`(?i)(?:passw(?:or)?d|secret|token|api[_-]?key|authorization|cookie)["']?\s*[:=]\s*["']?([^\s"',;&<>{}]+)`),
	},
	{[]string{"://"}, regexp.MustCompile(`://([^\s/@:]+:[^\s/@]+)@`)},
	{[]string{"private key-"}, regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----.*)`)},
}

// Runs as long as these are taken for tokens without a mark: of hexadecimal digits, and of what base64url is made of.
const (
	maxHexRun   = 31
	maxTokenRun = 39
)

// cleanAnswer makes the start of an answer fit to be kept and shown: at most maxKeptAnswer bytes of valid UTF-8 in one
// line, without control and formatting characters, and without secrets: neither what looks like one nor any piece of
// those that the receiver shares with us, in upper or lower case, however it is broken up by other characters.
func cleanAnswer(start []byte, shared []string) string {
	text := legible(start)
	if len(text) < minFragment {
		return strings.TrimSpace(text) // "ok"
	}
	hidden := make([]bool, len(text))
	hideShapes(hidden, text)
	hideRuns(hidden, text, maxHexRun, isHex)
	hideRuns(hidden, text, maxTokenRun, isToken)
	if len(start) >= answerWindow {
		hideCutRun(hidden, text)
	}
	hideFragments(hidden, text, shared, isLetterOrDigit)
	hideFragments(hidden, text, shared, func(byte) bool { return true })
	return strings.TrimSpace(render(text, hidden))
}

func hideShapes(hidden []bool, text string) {
	lower := strings.ToLower(text)
	for _, s := range secretShapes {
		if !slices.ContainsFunc(s.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		for _, at := range s.pattern.FindAllStringSubmatchIndex(text, -1) {
			hide(hidden[at[2]:at[3]])
		}
	}
}

// hideRuns hides each run of such bytes that is longer than longest.
func hideRuns(hidden []bool, text string, longest int, such func(byte) bool) {
	begin := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && such(text[i]) {
			continue
		}
		if i-begin > longest {
			hide(hidden[begin:i])
		}
		begin = i + 1
	}
}

// hideCutRun hides a token at the window's edge: how long it is nobody knows.
func hideCutRun(hidden []bool, text string) {
	begin := len(text)
	for begin > 0 && isToken(text[begin-1]) {
		begin--
	}
	if len(text)-begin >= minFragment {
		hide(hidden[begin:])
	}
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isToken(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '_'
}

// legible is what a person could read of it: each white space is a space, bytes that are no UTF-8 are U+FFFD, and what
// has no shape (control and formatting characters) is left out, so that it cannot split a secret either.
func legible(raw []byte) string {
	var text strings.Builder
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		raw = raw[size:]
		switch {
		case unicode.IsSpace(r):
			text.WriteByte(' ')
		case unicode.IsGraphic(r):
			text.WriteRune(r)
		}
	}
	return text.String()
}

// hideFragments hides each piece of a secret, with whatever stands within it, where text and secrets are compared by
// those of their bytes that matter.
func hideFragments(hidden []bool, text string, secrets []string, matters func(byte) bool) {
	reduced, origin := reduce(text, matters)
	if len(reduced) < minFragment {
		return
	}
	fragments := make(map[uint64]struct{}, 64*len(secrets))
	for _, secret := range secrets {
		known, _ := reduce(legible([]byte(secret)), matters)
		for i := 0; i+minFragment <= len(known); i++ {
			fragments[binary.NativeEndian.Uint64(known[i:])] = struct{}{}
		}
	}
	for i := 0; i+minFragment <= len(reduced); i++ {
		if _, found := fragments[binary.NativeEndian.Uint64(reduced[i:])]; found {
			hide(hidden[origin[i] : origin[i+minFragment-1]+1])
		}
	}
}

// reduce leaves the bytes of text that matter, in lower case, and tells where in text each of them was.
func reduce(text string, matters func(byte) bool) (reduced []byte, origin []int) {
	reduced, origin = make([]byte, 0, len(text)), make([]int, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if matters(c) {
			reduced, origin = append(reduced, c), append(origin, i)
		}
	}
	return reduced, origin
}

func isLetterOrDigit(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func hide(hidden []bool) {
	for i := range hidden {
		hidden[i] = true
	}
}

// render writes text with a mask in place of each run of what is hidden, cut at the bound.
func render(text string, hidden []bool) string {
	var out strings.Builder
	masking := false
	for i, r := range text {
		switch {
		case !hidden[i]:
			out.WriteRune(r)
		case !masking:
			out.WriteString(mask)
		}
		masking = hidden[i]
		if out.Len() >= maxKeptAnswer {
			break
		}
	}
	kept := out.String()
	if len(kept) <= maxKeptAnswer {
		return kept
	}
	end := maxKeptAnswer
	for !utf8.RuneStart(kept[end]) {
		end--
	}
	return kept[:end]
}

// readAnswer reads an answer's body as far as it is read at all, and returns how it begins. What is compressed is not
// kept: nobody asked for it, and what is in it cannot be seen. What follows 101 is no body but the connection itself, on
// which no deadline holds any more: nothing is read.
func readAnswer(answer *http.Response) (start []byte, err error) {
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil
	}
	var first window
	body := io.LimitReader(answer.Body, maxAnswer)
	if answer.ContentLength != 0 && answer.Header.Get("Content-Encoding") == "" {
		body = io.TeeReader(body, &first)
	}
	_, err = io.Copy(io.Discard, body)
	return first, err
}

// window keeps the first bytes that are written to it.
type window []byte

func (w *window) Write(p []byte) (int, error) {
	*w = append(*w, p[:min(len(p), answerWindow-len(*w))]...)
	return len(p), nil
}

// sharedSecrets are the texts that a receiver and we alone know: its signing secrets, also in the encodings in which a
// receiver may show them, and the signatures of this try.
func sharedSecrets(secrets []string, signature string) []string {
	shared := slices.Clone(secrets)
	for _, secret := range secrets {
		shared = append(shared, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret)),
			// Behind one or two other bytes, without the characters that depend on them.
			base64.RawStdEncoding.EncodeToString([]byte("-" + secret))[2:],
			base64.RawStdEncoding.EncodeToString([]byte("--" + secret))[3:])
	}
	for element := range strings.SplitSeq(signature, ",") {
		if value, ok := strings.CutPrefix(element, "v1="); ok {
			shared = append(shared, value)
		}
	}
	return shared
}
