package httpapi

import "bytes"

// matchesETag evaluates If-None-Match (RFC 9110 §13.1.2): "*" or a list, compared weakly. A list may stand on several
// lines.
func matchesETag(lines [][]byte, etag string) bool {
	for _, line := range lines {
		for len(line) > 0 {
			var candidate []byte
			// No ETag of ours has a comma, so one that is split at its comma matches none.
			candidate, line, _ = bytes.Cut(line, []byte{','})
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

// codings are what we compress with, best for our documents first.
func codings() [3]coding { return [...]coding{codingBrotli, codingZstd, codingGzip} }

// acceptedCoding picks the coding that the client likes best (RFC 9110 §12.5.3); of equals the one that is smallest for
// our documents. Uncompressed is sent to who likes that better, or names nothing of ours. "*" alone is not taken as a
// wish (who can decode something says what), unless it stands beside a refusal of the uncompressed form.
func acceptedCoding(lines [][]byte) coding {
	if len(lines) == 0 {
		return codingIdentity
	}
	anything, _ := codingQuality(lines, "*")
	identity, given := codingQuality(lines, "identity")
	best, bestQuality := codingIdentity, max(identity, 1) // at least one thousandth: 0 is a refusal
	for _, candidate := range codings() {
		quality, named := codingQuality(lines, string(candidate))
		if !named && given && identity == 0 {
			quality = anything
		}
		if quality > bestQuality || quality == bestQuality && best == codingIdentity {
			best, bestQuality = candidate, quality
		}
	}
	return best
}

// codingQuality is the weight of name in Accept-Encoding, in thousandths, and whether it is named at all.
func codingQuality(lines [][]byte, name string) (thousandths int, named bool) {
	for _, line := range lines {
		for len(line) > 0 {
			var element []byte
			element, line, _ = bytes.Cut(line, []byte{','})
			token, weight, weighed := bytes.Cut(element, []byte{';'})
			if !equalFold(bytes.Trim(token, " \t"), name) {
				continue
			}
			if !weighed {
				return 1000, true
			}
			return readWeight(bytes.Trim(weight, " \t")), true
		}
	}
	return 0, false
}

// readWeight reads "q=0.5" (RFC 9110 §12.4.2): at most three decimals, at most 1. What is no weight is none: 0.
func readWeight(text []byte) int {
	if len(text) < 3 || text[0]|0x20 != 'q' || text[1] != '=' || len(text) > len("q=0.000") {
		return 0
	}
	whole, decimals := text[2], text[3:]
	if whole != '0' && whole != '1' || len(decimals) > 0 && decimals[0] != '.' {
		return 0
	}
	value := int(whole-'0') * 1000
	for place, scale := 1, 100; place < len(decimals); place, scale = place+1, scale/10 {
		digit := decimals[place]
		if digit < '0' || digit > '9' {
			return 0
		}
		value += int(digit-'0') * scale
	}
	if value > 1000 {
		return 0
	}
	return value
}
