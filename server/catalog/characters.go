package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// checkCharacters reports the first character that no text can have: a control character other than line feed and tab, U+007F to
// U+009F, U+FFFE and U+FFFF. Such text does not survive the way through YAML, JSON and PostgreSQL.
func (v *inspector) checkCharacters(field, value string) bool {
	i := indexForbidden(value)
	if i < 0 {
		return true
	}
	r, size := utf8.DecodeRuneInString(value[i:])
	v.reportf(field, "must not contain U+%04X%s", r, hintOf(r, value[i+size:]))
	return false
}

// indexForbidden works on bytes, because nearly all text is ASCII. The value is valid UTF-8.
func indexForbidden(value string) int {
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			return i
		case c == 0xc2 && i+1 < len(value) && value[i+1] <= 0x9f: // U+0080 to U+009F
			return i
		case c == 0xef && i+2 < len(value) && value[i+1] == 0xbf && value[i+2] >= 0xbe: // U+FFFE, U+FFFF
			return i
		}
	}
	return -1
}

// hintOf names the usual cause of a forbidden character; after is the text behind it.
func hintOf(r rune, after string) string {
	switch {
	case strings.ContainsRune("\a\b\v\f\r\x1b", r) && startsWithLetter(after):
		return fmt.Sprintf(", which a backslash and the letter %c make in a quoted text: write two backslashes for LaTeX", escapeOf(r))
	case 0x80 <= r && r <= 0x9f:
		if meant := charmap.Windows1252.DecodeByte(byte(r)); meant != r && meant != utf8.RuneError {
			return fmt.Sprintf(", which is %c in Windows-1252: convert the text from Windows-1252 to UTF-8", meant)
		}
	case r == '\r':
		return ", a carriage return without a line feed"
	}
	return ""
}

func startsWithLetter(text string) bool {
	return text != "" && ('a' <= text[0]|0x20 && text[0]|0x20 <= 'z')
}

// escapeOf returns the letter of the escape that makes r in JSON or YAML.
func escapeOf(r rune) byte {
	return map[rune]byte{'\a': 'a', '\b': 'b', '\v': 'v', '\f': 'f', '\r': 'r', '\x1b': 'e'}[r]
}

// swallowed are the remains of LaTeX commands whose backslash became part of an escape that texts can hold. Names that begin other
// words too count only as whole words.
var swallowed = []struct {
	character, command string
	remains, words     []string
}{
	{"\t", `\t`, []string{"imes", "heta", "ext{"}, []string{"an", "au"}},
	{"\n", `\n`, []string{"u$"}, []string{"eq"}},
	{"\u2028", `\L`, []string{"ambda", "eftarrow", "eftrightarrow", "ongrightarrow"}, nil},
	{"\u2029", `\P`, nil, []string{"i", "hi", "si"}},
}

// warnOfEscapes warns of LaTeX that lost a backslash without becoming invalid.
func (v *inspector) warnOfEscapes(field, value string) {
	for _, s := range swallowed {
		for rest := value; ; {
			_, after, found := strings.Cut(rest, s.character)
			if !found {
				break
			}
			if remains := remainsOf(after, s.remains, s.words); remains != "" {
				character, _ := utf8.DecodeRuneInString(s.character)
				v.warnf(field, "holds U+%04X before %q: if %s is meant, write two backslashes", character, remains, s.command+remains)
				return
			}
			rest = after
		}
	}
}

func remainsOf(text string, remains, words []string) string {
	for _, remain := range remains {
		if strings.HasPrefix(text, remain) {
			return remain
		}
	}
	for _, word := range words {
		if after, found := strings.CutPrefix(text, word); found && !startsWithLetter(after) {
			return word
		}
	}
	return ""
}

// checkFreeForm holds the texts of a decoded JSON value against the rules for characters, names of members included.
func (v *inspector) checkFreeForm(field string, value any) {
	switch value := value.(type) {
	case string:
		if v.checkCharacters(field, value) {
			v.warnOfEscapes(field, value)
		}
	case []any:
		for i, item := range value {
			v.checkFreeForm(fmt.Sprintf("%s[%d]", field, i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if !v.checkCharacters(field, name) {
				continue
			}
			below := name
			if field != "" {
				below = field + "." + name
			}
			v.checkFreeForm(below, value[name])
		}
	}
}
