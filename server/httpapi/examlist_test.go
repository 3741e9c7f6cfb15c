package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
)

func TestCountriesAreKnownByNameAndCode(t *testing.T) {
	known := newCountries()
	for name, want := range map[string]string{
		"Brazil": "BR", "brasil": "BR", "BR": "BR", "bra": "BR", "BRAZIL ": "BR",
		"Spain": "ES", "España": "ES", "espana": "ES",
		"Côte d’Ivoire": "CI", "cote d'ivoire": "CI", "Ivory Coast": "CI",
		"United States": "US", "united states of america": "US", "USA": "US",
		"United Kingdom": "GB", "uk": "GB", "South Korea": "KR", "대한민국": "KR", "India": "IN", "भारत": "IN",
		"Türkiye": "TR", "turkey": "TR", "Deutschland": "DE", "Viet Nam": "VN", "Vietnam": "VN", "日本": "JP",
		"": "", "Atlantis": "atlantis", "  Old   Atlantis! ": "old atlantis",
	} {
		if got := known.identify(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func sampleEntries(countries ...string) []catalog.ExamEntry {
	entries := make([]catalog.ExamEntry, len(countries))
	for i, country := range countries {
		name, code, _ := strings.Cut(country, "/")
		entries[i] = catalog.ExamEntry{
			Key: fmt.Sprint(i), Country: name, CountryCode: code, JSON: fmt.Appendf(nil, `{"exam_key":"%d"}`, i),
		}
	}
	return entries
}

// order reads the exam keys of a list.
func order(t interface{ Fatal(args ...any) }, document catalog.Document) string {
	var list struct {
		Exams []struct {
			Key string `json:"exam_key"`
		} `json:"exams"`
	}
	if err := json.Unmarshal(document.JSON, &list); err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(list.Exams))
	for i, exam := range list.Exams {
		keys[i] = exam.Key
	}
	return strings.Join(keys, " ")
}

func TestLocallyRelevantExamsComeFirst(t *testing.T) {
	list := newExamList()
	entries := sampleEntries("United States/US", "Brazil/BR", "Spain", "España/ES", "", "Atlantis", "/BR", "Brasil")
	for _, c := range []struct{ country, code, want string }{
		{"", "", "0 1 2 3 4 5 6 7"},
		{"", "br", "1 6 7 0 2 3 4 5"},
		{"BRAZIL", "", "1 6 7 0 2 3 4 5"},
		{"espana", "", "2 3 0 1 4 5 6 7"},
		{"Spain", "BR", "1 6 7 2 3 0 4 5"},
		{"Spain", "ES", "2 3 0 1 4 5 6 7"},
		{"atlantis", "", "5 0 1 2 3 4 6 7"},
		{"Nowhere", "XX", "0 1 2 3 4 5 6 7"},
		{"India", "", "0 1 2 3 4 5 6 7"},
	} {
		if got := order(t, list.document(entries, c.country, c.code)); got != c.want {
			t.Errorf("country=%q country_code=%q: %s, want %s", c.country, c.code, got, c.want)
		}
	}
}

func TestListFollowsTheCatalogue(t *testing.T) {
	list := newExamList()
	before := list.document(sampleEntries("Spain/ES"), "", "")
	after := list.document(sampleEntries("Spain/ES", "Brazil/BR"), "", "")
	if order(t, after) != "0 1" || before.ETag == after.ETag {
		t.Errorf("list = %s, ETag %s after %s", order(t, after), after.ETag, before.ETag)
	}
	if again := list.document(sampleEntries("Spain/ES"), "", ""); again.ETag != before.ETag {
		t.Error("the same list has another ETag")
	}
}

// TestOrderingNeverFilters: whatever is asked, every exam is there once, and the relative order within what is relevant
// and what is not stays the catalogue's.
func TestOrderingNeverFilters(t *testing.T) {
	list := newExamList()
	places := []string{"Spain/ES", "Brazil/BR", "/BR", "España", "Atlantis", "", "India/IN"}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(places), 0, 12).Draw(t, "places")
		code := rapid.SampledFrom([]string{"", "BR", "es", "zz"}).Draw(t, "code")
		country := rapid.SampledFrom([]string{"", "brasil", "Spain", "atlantis", "?"}).Draw(t, "country")
		keys := strings.Fields(order(t, list.document(sampleEntries(drawn...), country, code)))
		if len(keys) != len(drawn) {
			t.Fatalf("%d of %d exams", len(keys), len(drawn))
		}
		sorted := slices.Sorted(slices.Values(keys))
		if len(slices.Compact(sorted)) != len(drawn) {
			t.Fatal("an exam stands twice")
		}
	})
}
