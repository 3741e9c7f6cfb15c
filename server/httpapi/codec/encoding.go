package codec

import (
	"bytes"
	"strconv"
)

// Coding is a Content-Encoding.
type Coding string

// The codings, in the order of preference.
const (
	Identity Coding = ""
	Brotli   Coding = "br"
	Zstd     Coding = "zstd"
	Gzip     Coding = "gzip"
)

// AcceptedCoding returns the first of br, zstd and gzip that Accept-Encoding names with a weight other than 0 (RFC 9110
// §12.5.3). The first has the smallest documents. "*" counts only if the uncompressed form is refused.
func AcceptedCoding(lines [][]byte) Coding {
	if len(lines) == 0 {
		return Identity
	}
	identity, named := accepts(lines, "identity")
	anything, _ := accepts(lines, "*")
	anything = anything && named && !identity
	for _, candidate := range [...]Coding{Brotli, Zstd, Gzip} {
		if accepted, named := accepts(lines, string(candidate)); accepted || anything && !named {
			return candidate
		}
	}
	return Identity
}

// accepts reports whether a coding is named, and with a weight other than 0.
func accepts(lines [][]byte, name string) (accepted, named bool) {
	for _, line := range lines {
		for element := range bytes.SplitSeq(line, []byte{','}) {
			token, weight, weighed := bytes.Cut(element, []byte{';'})
			if bytes.EqualFold(bytes.Trim(token, " \t"), []byte(name)) {
				return !weighed || isWeight(bytes.Trim(weight, " \t")), true
			}
		}
	}
	return false, false
}

// isWeight reports whether text is "q=0.5" or the like (RFC 9110 §12.4.2): at most three decimals, at most 1, not 0.
func isWeight(text []byte) bool {
	if len(text) < len("q=0") || len(text) > len("q=0.000") || text[0]|0x20 != 'q' || text[1] != '=' || text[2] != '0' && text[2] != '1' {
		return false
	}
	weight, err := strconv.ParseFloat(string(text[2:]), 64)
	return err == nil && weight > 0 && weight <= 1
}
