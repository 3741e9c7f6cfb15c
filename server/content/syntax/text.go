package syntax

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// FirstByte returns the first byte of text after white space, or 0.
func FirstByte(text []byte) byte {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 {
		return trimmed[0]
	}
	return 0
}

// LineOfInvalidUTF8 returns the line, counted from 1, of the first byte that is not UTF-8, or the last line.
func LineOfInvalidUTF8(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[size:]
	}
	return line
}

// NeedsEscape reports whether YAML cannot hold r outside of double quotes, or reads it as a line break.
func NeedsEscape(r rune) bool {
	return r < ' ' || 0x7f <= r && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffd ||
		r == 0xfffe || r == 0xffff
}

// CompactJSON marshals a value without HTML escapes and without a final newline. It escapes what YAML cannot hold as it is, so that the
// text can be put into a literal block.
func CompactJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("render %T: %w", value, err)
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !bytes.ContainsFunc(text, NeedsEscape) {
		return text, nil
	}
	var escaped bytes.Buffer
	for _, r := range string(text) {
		if NeedsEscape(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes(), nil
}
