package httpapi

import (
	"bytes"
	"strconv"
)

// matchesETag evaluates If-None-Match (RFC 9110 §13.1.2): "*" or a list, compared weakly. A list may stand on several
// lines.
func matchesETag(lines [][]byte, etag string) bool {
	for _, line := range lines {
		// No ETag of ours has a comma, so one that is split at its comma matches none.
		for candidate := range bytes.SplitSeq(line, []byte{','}) {
			candidate = bytes.TrimPrefix(bytes.Trim(candidate, " \t"), []byte("W/"))
			if string(candidate) == etag || string(candidate) == "*" {
				return true
			}
		}
	}
	return false
}

// A coding is a Content-Encoding.
type coding string

const (
	codingIdentity coding = ""
	codingBrotli   coding = "br"
	codingZstd     coding = "zstd"
	codingGzip     coding = "gzip"
)

// acceptedCoding returns the first of br, zstd and gzip that Accept-Encoding names with a weight other than 0 (RFC 9110
// §12.5.3). The first has the smallest documents. "*" counts only if the uncompressed form is refused.
func acceptedCoding(lines [][]byte) coding {
	if len(lines) == 0 {
		return codingIdentity
	}
	identity, named := accepts(lines, "identity")
	anything, _ := accepts(lines, "*")
	anything = anything && named && !identity
	for _, candidate := range [...]coding{codingBrotli, codingZstd, codingGzip} {
		if accepted, named := accepts(lines, string(candidate)); accepted || anything && !named {
			return candidate
		}
	}
	return codingIdentity
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
