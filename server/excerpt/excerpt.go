// Package excerpt shortens texts that a client chose, for errors and logs: their size must not depend on the client.
package excerpt

import "strconv"

// Max is the maximum number of characters that an excerpt keeps of a text.
const Max = 100

// Text returns text, or its first [Max] characters and an ellipsis.
func Text(text string) string {
	characters := 0
	for i := range text {
		if characters == Max {
			return text[:i] + "…"
		}
		characters++
	}
	return text
}

// Quote returns [Text] of text in double quotes, with Go's escapes.
func Quote(text string) string { return strconv.Quote(Text(text)) }
