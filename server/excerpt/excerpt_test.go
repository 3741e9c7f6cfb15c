package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"examprep.dev/server/excerpt"
	"examprep.dev/server/testkit/check"
)

func TestShortTextsStayWhole(t *testing.T) {
	for _, text := range []string{"", "a", "\x7f", "é😀", "\xff", strings.Repeat("é", excerpt.Max)} {
		check.Equal(t, excerpt.Text(text), text, "the excerpt of %q", text)
	}
	check.Equal(t, excerpt.Quote("a\"b\x7f"), `"a\"b\x7f"`, "a quoted text")
}

// TestExcerptsAreBounded: also of texts that are not UTF-8. An escape takes at most 10 bytes.
func TestExcerptsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		text = strings.Repeat(text, rapid.IntRange(1, 50).Draw(t, "times"))
		got := excerpt.Text(text)
		if n := utf8.RuneCountInString(got); n > excerpt.Max+1 || n <= excerpt.Max && got != text {
			t.Fatalf("%d characters of %d", n, utf8.RuneCountInString(text))
		}
		if n := len(excerpt.Quote(text)); n > 10*excerpt.Max+5 {
			t.Fatalf("%d bytes quoted", n)
		}
	})
}
