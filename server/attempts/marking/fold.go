package marking

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// normalizeSpace trims, makes every run of spaces and control characters one space, and replaces what is not UTF-8.
func normalizeSpace(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// dropFormat removes format characters (Cf), such as soft hyphens and the marks of a writing direction. They are invisible.
func dropFormat(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text)
}

// foldText makes texts comparable, so that it does not matter how case, an accent, a quotation mark, a dash or a space is typed. It is
// the Unicode standard's canonical caseless matching (D145) without format characters, with ASCII punctuation and normal spaces.
// cases.Fold swaps the two cases of Cherokee instead of choosing one; the lower-casing after it changes nothing else and settles
// that.
func foldText(text string) string {
	text = norm.NFD.String(dropFormat(strings.ToValidUTF8(text, "\uFFFD")))
	text = norm.NFD.String(strings.ToLower(cases.Fold().String(text)))
	return normalizeSpace(strings.Map(toASCII, text))
}

// toASCII returns the ASCII form of a quotation mark, an apostrophe or a dash, and any other character as it is.
func toASCII(r rune) rune {
	switch r {
	case '`', '\u00B4', '\u02BB', '\u02BC', '\u055A', '\u2018', '\u2019', '\u201A', '\u201B', '\u2032', '\u2039', '\u203A', '\uFF07':
		return '\''
	case '\'':
		return r
	case '\u2033':
		return '"'
	case '\u2212':
		return '-'
	}
	switch {
	case unicode.Is(unicode.Quotation_Mark, r):
		return '"'
	case unicode.Is(unicode.Pd, r):
		return '-'
	default:
		return r
	}
}

// foldNumber returns the normal form of a number. It returns other answers as foldText does, with isNumber false.
func foldNumber(value string) (folded string, isNumber bool) {
	if x, ok := parseDecimal(value); ok {
		return formatNumber(x), true
	}
	text := foldText(value)
	if digits, ok := asciiDigits(text); ok {
		if x, ok := parseDecimal(digits); ok {
			return formatNumber(x), true
		}
	}
	return text, false
}

// decimal is a number as answers may write it: a point, never a comma; no other base, no infinity.
var decimal = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$`)

func parseDecimal(text string) (x float64, ok bool) {
	if !decimal.MatchString(text) {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil // 1e999 is out of range
}

// asciiDigits replaces the decimal digits of one script, the Arabic decimal sign and the full-width full stop by those of ASCII. It
// reports false for digits of two scripts.
func asciiDigits(text string) (ascii string, ok bool) {
	first := rune(-1) // the zero of the digits so far
	ok = true
	ascii = strings.Map(func(r rune) rune {
		switch {
		case r == '\u066B', r == '\uFF0E':
			return '.'
		case unicode.IsDigit(r):
			zero := zeroOf(r)
			ok = ok && (first < 0 || first == zero)
			first = zero
			return '0' + r - zero
		}
		return r
	}, text)
	return ascii, ok
}

// zeroOf returns the zero of a decimal digit's set. Unicode keeps the digits of a set together and in order.
func zeroOf(digit rune) rune {
	for _, r := range unicode.Nd.R16 {
		if low := rune(r.Lo); low <= digit && digit <= rune(r.Hi) {
			return digit - (digit-low)%10
		}
	}
	for _, r := range unicode.Nd.R32 {
		if low := rune(r.Lo); low <= digit && digit <= rune(r.Hi) {
			return digit - (digit-low)%10
		}
	}
	return digit
}

// formatNumber writes the shortest decimal that reads back as x; very large and very small ones with an exponent.
func formatNumber(x float64) string {
	const plainBelow, plainFrom = 1e15, 1e-6
	if x == 0 {
		return "0" // not "-0"
	}
	if magnitude := math.Abs(x); magnitude >= plainBelow || magnitude < plainFrom {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
