package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/testkit/check"
)

func TestCountriesAreKnownByNameAndCode(t *testing.T) {
	t.Parallel()
	list := newExamList()
	for name, want := range map[string]string{
		"Brazil": "BR", "brasil": "BR", "BR": "BR", "BRAZIL ": "BR",
		"Spain": "ES", "España": "ES", "espana": "ES",
		"Côte d’Ivoire": "CI", "cote d'ivoire": "CI",
		"United States": "US", "united states of america": "US",
		"United Kingdom": "GB", "South Korea": "KR", "대한민국": "KR", "India": "IN", "भारत": "IN",
		"Türkiye": "TR", "turkey": "TR", "Czech Republic": "CZ", "Czechia": "CZ", "Deutschland": "DE", "ÖSTERREICH": "AT", "Danmark": "DK", "føroyar": "FO", "Việt Nam": "VN", "Viet-Nam": "VN",
		"STRASSE": "strasse", "Straße": "strasse", "curacao": "CW", "sao tome & principe": "ST", "Réunion": "RE", "gb": "GB",
		"St. Lucia": "LC", "Ελλάδα": "GR", "ΕΛΛΑΔΑ": "GR", "россия": "RU", "中国": "CN", "ไทย": "TH", "Viet Nam": "VN", "Vietnam": "VN", "日本": "JP",
		"": "", "Atlantis": "atlantis", "  Old   Atlantis! ": "old atlantis",
		"USA": "usa", "uk": "uk", "bra": "bra", "GBR": "gbr", "Ivory Coast": "ivory coast", "Holland": "holland", // no full names
	} {
		check.Equal(t, list.place(fold(name)), want, "%q", name)
	}
}

func sampleEntries(countries ...string) []read.ExamEntry {
	entries := make([]read.ExamEntry, len(countries))
	for i, country := range countries {
		name, code, _ := strings.Cut(country, "/")
		entries[i] = read.ExamEntry{
			Key: fmt.Sprint(i), Country: name, CountryCode: code, JSON: fmt.Appendf(nil, `{"exam_key":"%d"}`, i),
		}
	}
	return entries
}

func listed(t check.T, list *examList, country, countryCode string) read.Document {
	document, _, err := list.document(context.Background(), country, countryCode)
	check.NoError(t, err)
	return document
}

func order(t check.T, document read.Document) string {
	var list struct {
		Exams []struct {
			Key string `json:"exam_key"`
		} `json:"exams"`
	}
	check.NoError(t, json.Unmarshal(document.JSON, &list))
	keys := make([]string, len(list.Exams))
	for i, exam := range list.Exams {
		keys[i] = exam.Key
	}
	return strings.Join(keys, " ")
}

type orderCase struct{ country, code, want string }

func testOrders(t *testing.T, countries []string, cases []orderCase) {
	t.Helper()
	list := newExamList()
	list.update(sampleEntries(countries...))
	for _, c := range cases {
		check.Equal(t, order(t, listed(t, list, c.country, c.code)), c.want, "country=%q country_code=%q", c.country, c.code)
	}
}

func TestLocallyRelevantExamsComeFirst(t *testing.T) {
	t.Parallel()
	testOrders(t, []string{"United States/US", "Brazil/BR", "Spain", "España/ES", "", "Atlantis", "/BR", "Brasil"}, []orderCase{
		{"", "", "0 1 2 3 4 5 6 7"},
		{"", "br", "1 6 7 0 2 3 4 5"},
		{"BRAZIL", "", "1 6 7 0 2 3 4 5"},
		{"espana", "", "2 3 0 1 4 5 6 7"},
		{"Spain", "BR", "1 6 7 2 3 0 4 5"},
		{"Spain", "ES", "2 3 0 1 4 5 6 7"},
		{"atlantis", "", "5 0 1 2 3 4 6 7"},
		{"Nowhere", "XX", "0 1 2 3 4 5 6 7"},
		{"India", "", "0 1 2 3 4 5 6 7"},
	})
}

// TestExamsKnowTheirCountriesNames: a name that stands on an exam finds all exams of its country, known to CLDR or not.
func TestExamsKnowTheirCountriesNames(t *testing.T) {
	t.Parallel()
	countries := []string{"United States/US", "Korea (South)/KR", "South Korea", "The Moon/ZZ", "/zz", "Spain/ES", "Brazil/ES", "USA/US"}
	testOrders(t, countries, []orderCase{
		{"korea south", "", "1 2 0 3 4 5 6 7"},
		{"South Korea", "", "1 2 0 3 4 5 6 7"},
		{"", "kr", "1 2 0 3 4 5 6 7"},
		{"the moon", "", "3 4 0 1 2 5 6 7"},
		{"The Moon", "US", "0 7 3 4 1 2 5 6"},
		{"brazil", "", "0 1 2 3 4 5 6 7"}, // the code says where an exam belongs, not a name that belongs elsewhere
		{"Spain", "", "5 6 0 1 2 3 4 7"},
		{"usa", "", "0 7 1 2 3 4 5 6"},
	})
}

// TestListWithoutCountryTakesNoMemory: a request that names no country folds nothing and renders nothing.
func TestListWithoutCountryTakesNoMemory(t *testing.T) {
	list := newExamList()
	list.update(sampleEntries("Spain/ES", "Brazil/BR"))
	check.Equal(t, testing.AllocsPerRun(100, func() { listed(t, list, "", "") }), 0, "allocations")
}

func TestListFollowsTheCatalogue(t *testing.T) {
	list := newExamList()
	after := func(countries ...string) read.Document {
		list.update(sampleEntries(countries...))
		return listed(t, list, "", "")
	}
	first, second := after("Spain/ES"), after("Spain/ES", "Brazil/BR")
	if order(t, second) != "0 1" || first.ETag == second.ETag {
		t.Errorf("list = %s, ETag %s after %s", order(t, second), second.ETag, first.ETag)
	}
	check.Equal(t, after("Spain/ES").ETag, first.ETag, "ETag of the same list")
}

// TestOrderingNeverFilters: whatever is asked, the answer is the catalogue's own order, sorted stably by whether an exam
// is of country_code, of country, or of neither.
func TestOrderingNeverFilters(t *testing.T) {
	t.Parallel()
	list := newExamList()
	places := map[string]string{"Spain/ES": "ES", "Brazil/BR": "BR", "/BR": "BR", "España": "ES", "Atlantis": "A", "": "", "India/IN": "IN"}
	codes := map[string]string{"": "", "BR": "BR", "es": "ES", "zz": ""}
	countries := map[string]string{"": "", "brasil": "BR", "Spain": "ES", "ESPAÑA": "ES", "atlantis": "A", "?": "", "Peru": ""}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(places))), 0, 12).Draw(t, "places")
		code := rapid.SampledFrom(slices.Sorted(maps.Keys(codes))).Draw(t, "code")
		country := rapid.SampledFrom(slices.Sorted(maps.Keys(countries))).Draw(t, "country")
		rank := func(i int) int {
			switch places[drawn[i]] {
			case "":
				return 2
			case codes[code]:
				return 0
			case countries[country]:
				return 1
			default:
				return 2
			}
		}
		want := make([]int, len(drawn))
		for i := range want {
			want[i] = i
		}
		list.update(sampleEntries(drawn...))
		slices.SortStableFunc(want, func(a, b int) int { return rank(a) - rank(b) })
		if got := order(t, listed(t, list, country, code)); got != strings.Trim(fmt.Sprint(want), "[]") {
			t.Fatalf("%s, want %v", got, want)
		}
	})
}

// TestOrdersTakeBoundedMemory asks for each order of exams in 30 countries, by country and by country code: 150 MiB if all were kept.
func TestOrdersTakeBoundedMemory(t *testing.T) {
	const countries, each = 30, 20
	var entries []read.ExamEntry
	names := make([]string, 0, countries)
	list := newExamList()
	for name, code := range list.countries {
		if len(names) < countries && len(code) == 2 && !strings.EqualFold(code, name) {
			names = append(names, name)
			for i := range each {
				entries = append(entries, read.ExamEntry{Country: name, JSON: fmt.Appendf(nil, `{"exam_key":"%s-%d","padding":"%s"}`, code, i, strings.Repeat("x", 250))})
			}
		}
	}
	list.update(entries)
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for _, country := range names {
		for _, other := range names {
			_, _, err := list.document(t.Context(), country, list.countries[other])
			check.NoError(t, err)
		}
	}
	list.current.Load().others.CleanUp()
	if grown := int64(heap()) - int64(before); grown > 50<<20 {
		t.Errorf("%d orders of %d exams take %d MiB", countries*countries, len(entries), grown>>20)
	}
	runtime.KeepAlive(list)
}
