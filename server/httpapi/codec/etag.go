package codec

import "bytes"

// MatchesETag evaluates If-None-Match (RFC 9110 §13.1.2): "*" or a list, compared weakly. A list can be on several lines.
func MatchesETag(lines [][]byte, etag string) bool {
	for _, line := range lines {
		// No ETag here has a comma, so one that is split at its comma matches none.
		for candidate := range bytes.SplitSeq(line, []byte{','}) {
			candidate = bytes.TrimPrefix(bytes.Trim(candidate, " \t"), []byte("W/"))
			if string(candidate) == etag || string(candidate) == "*" {
				return true
			}
		}
	}
	return false
}
