package httpapi

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// countries knows the world's countries by name: in English and in their own main language as CLDR has them, and by
// their ISO 3166-1 codes. Case, accents and punctuation do not matter: "cote d ivoire" is "Côte d’Ivoire".
type countries struct{ codes map[string]string }

// newCountries reads CLDR's names once; about 300 regions.
func newCountries() *countries {
	c := &countries{codes: make(map[string]string, 1024)}
	english := display.English.Regions()
	var native []func()
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			region, err := language.ParseRegion(string([]rune{a, b}))
			if err != nil || !region.IsCountry() || region.Canonicalize() != region {
				continue
			}
			c.add(english.Name(region), region)
			c.add(region.String(), region)
			c.add(region.ISO3(), region)
			native = append(native, func() { c.add(nativeName(region), region) })
		}
	}
	for _, add := range native { // after all English names, which win
		add()
	}
	for name, code := range map[string]string{ // what people write where CLDR has one name only
		"United States of America": "US", "USA": "US", "America": "US", "Great Britain": "GB", "Britain": "GB", "UK": "GB",
		"Korea": "KR", "Republic of Korea": "KR", "Russian Federation": "RU", "Viet Nam": "VN", "Czech Republic": "CZ",
		"Turkey": "TR", "Ivory Coast": "CI", "Cape Verde": "CV", "Swaziland": "SZ", "Burma": "MM", "Myanmar": "MM",
		"Macedonia": "MK", "East Timor": "TL", "Hong Kong": "HK", "Macau": "MO", "Palestine": "PS", "Holland": "NL",
		"People's Republic of China": "CN", "Democratic Republic of the Congo": "CD", "Republic of the Congo": "CG",
	} {
		if folded := fold(name); c.codes[folded] == "" {
			c.codes[folded] = code
		}
	}
	return c
}

func (c *countries) add(name string, region language.Region) {
	if folded := fold(name); folded != "" && c.codes[folded] == "" {
		c.codes[folded] = region.String()
	}
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
	names := display.Regions(spoken)
	if names == nil {
		return ""
	}
	return names.Name(region)
}

// identify returns what a country is compared by: its ISO code if the name or code is known, else the folded name, so
// that an exam of a place that CLDR does not know is still found by its own words. "" stays "".
func (c *countries) identify(name string) string {
	folded := fold(name)
	if code, known := c.codes[folded]; known {
		return code
	}
	return folded
}

// knows reports whether identify made a code of a name: names fold to small letters, codes are in capitals.
func (c *countries) knows(identity string) bool { return c.codes[fold(identity)] == identity }

// fold strips what does not distinguish names: case, accents, punctuation, runs of spaces. The transformers are stateful,
// hence made anew.
func fold(name string) string {
	plain, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn)), norm.NFC, cases.Fold()), name)
	if err != nil {
		plain = name
	}
	words := strings.FieldsFunc(strings.Map(unstroke, plain), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	return strings.Join(words, " ")
}

// unstroke takes the strokes and dots that Unicode does not take for accents from a folded letter.
func unstroke(r rune) rune {
	switch r {
	case 'đ':
		return 'd'
	case 'ł':
		return 'l'
	case 'ø':
		return 'o'
	case 'ı':
		return 'i'
	default:
		return r
	}
}
