package httpapi

import (
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
	var countries []language.Region
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			region, err := language.ParseRegion(string([]rune{a, b}))
			if err == nil && region.IsCountry() && region.Canonicalize() == region {
				countries = append(countries, region)
			}
		}
	}
	english := display.English.Regions()
	for _, region := range countries {
		add(english.Name(region), region.String())
		add(region.String(), region.String())
	}
	for _, region := range countries { // after all English names, which win
		add(nativeName(region), region.String())
	}
	return codes
}

// nativeName is the country's name in the language that most there speak: "Brasil", "España".
func nativeName(region language.Region) string {
	tag, err := language.Compose(language.Und, region)
	if err != nil {
		return ""
	}
	base, _ := tag.Base()
	script, _ := tag.Script()
	spoken, err := language.Compose(base, script)
	if err != nil {
		return ""
	}
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
