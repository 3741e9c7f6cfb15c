package httpapi

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"
)

// newCountries returns the ISO 3166-1 codes of the world's countries by their folded names: the English and the native one
// of CLDR, full names in common use, and the code itself.
func newCountries() map[string]string {
	codes := map[string]string{
		fold("United States of America"): "US", fold("Czech Republic"): "CZ", fold("Turkey"): "TR", fold("Viet Nam"): "VN",
	}
	add := func(name, code string) {
		if folded := fold(name); folded != "" && codes[folded] == "" {
			codes[folded] = code
		}
	}
	countries := slices.DeleteFunc(language.Supported.Regions(), func(region language.Region) bool {
		return !region.IsCountry() || region.Canonicalize() != region
	})
	for _, region := range countries {
		add(display.English.Regions().Name(region), region.String())
		add(region.String(), region.String())
	}
	for _, region := range countries { // after all English names, which win
		add(nativeName(region), region.String())
	}
	return codes
}

// nativeName is the country's name in the language that most there speak: "Brasil", "España".
func nativeName(region language.Region) string {
	tag, _ := language.Compose(region)
	base, _ := tag.Base()
	script, _ := tag.Script()
	spoken, _ := language.Compose(base, script)
	if names := display.Regions(spoken); names != nil {
		return names.Name(region)
	}
	return ""
}

// fold strips what does not distinguish names: case, accents, punctuation, runs of spaces.
func fold(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Mn, r):
			return -1
		case unicode.IsLetter(r), unicode.IsDigit(r):
			return r
		default:
			return ' '
		}
	}, norm.NFKD.String(name))
	return strings.Join(strings.Fields(cases.Fold().String(norm.NFC.String(plain))), " ")
}
