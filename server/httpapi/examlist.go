package httpapi

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"examprep.dev/server/catalog"
)

// examListBudget bounds the kept orders of the exam list, in bytes.
const examListBudget = 32 << 20

// examList renders the list of exams, locally relevant ones first.
type examList struct {
	countries map[string]string
	current   atomic.Pointer[orderedExams]
}

// orderedExams is the list for one state of the catalogue.
type orderedExams struct {
	entries []catalog.ExamEntry
	// places is where each entry belongs: the ISO code of its country, or a folded name that CLDR does not know.
	places []string
	// names are the folded names that the exams themselves give their countries, unless CLDR knows them.
	names map[string]string
	// plain is the catalogue's own order; others are those that begin with one or two places.
	plain  catalog.Document
	others *otter.Cache[[2]string, catalog.Document]
}

func newExamList() *examList { return &examList{countries: newCountries()} }

// update makes the list of another state of the catalogue. It folds each distinct name once.
func (l *examList) update(entries []catalog.ExamEntry) {
	list := &orderedExams{
		entries: entries, places: make([]string, len(entries)), names: make(map[string]string),
		others: otter.Must(&otter.Options[[2]string, catalog.Document]{
			MaximumWeight: examListBudget,
			Weigher:       func(_ [2]string, d catalog.Document) uint32 { return uint32(min(len(d.JSON), math.MaxUint32)) },
		}),
	}
	folded := make(map[string]string)
	for i, entry := range entries {
		for _, name := range [...]string{entry.Country, entry.CountryCode} {
			if _, done := folded[name]; !done {
				folded[name] = fold(name)
			}
		}
		code, name := folded[entry.CountryCode], folded[entry.Country]
		list.places[i] = l.place(code)
		if code == "" {
			list.places[i] = l.place(name)
		}
		if name != "" && l.countries[name] == "" && list.names[name] == "" {
			list.names[name] = list.places[i]
		}
	}
	list.plain = list.render([2]string{})
	l.current.Store(list)
}

// place is what countries are compared by: the ISO code of a folded name or code, if it is known, else the name itself.
func (l *examList) place(folded string) string {
	if code := l.countries[folded]; code != "" {
		return code
	}
	return folded
}

// document returns the body {"exams": […]}: exams of countryCode first, then those of country, then the others, each in the
// catalogue's own order. Neither ever filters; "" and a place without exams change nothing.
func (l *examList) document(ctx context.Context, country, countryCode string) (catalog.Document, error) {
	list := l.current.Load()
	wanted := [2]string{l.find(list, countryCode), l.find(list, country)}
	if wanted[0] == "" || wanted[0] == wanted[1] {
		wanted = [2]string{wanted[1]}
	}
	if wanted[0] == "" {
		return list.plain, nil
	}
	return list.others.Get(ctx, wanted, otter.LoaderFunc[[2]string, catalog.Document](
		func(context.Context, [2]string) (catalog.Document, error) { return list.render(wanted), nil }))
}

// find returns the place of a name if an exam belongs there, else "".
func (l *examList) find(list *orderedExams, name string) string {
	if name == "" {
		return ""
	}
	place, ours := list.names[fold(name)]
	if !ours {
		place = l.place(fold(name))
	}
	if !slices.Contains(list.places, place) {
		return ""
	}
	return place
}

// render writes the exams of the wanted places before the others.
func (l *orderedExams) render(wanted [2]string) catalog.Document {
	rank := func(i int) int {
		if place := slices.Index(wanted[:], l.places[i]); place >= 0 && l.places[i] != "" {
			return place
		}
		return len(wanted)
	}
	body := []byte(`{"exams":[`)
	for r := range len(wanted) + 1 {
		for i := range l.entries {
			if rank(i) != r {
				continue
			}
			if body[len(body)-1] != '[' {
				body = append(body, ',')
			}
			body = append(body, l.entries[i].JSON...)
		}
	}
	body = append(body, "]}"...)
	return catalog.Document{JSON: body, ETag: catalog.ETag(body)}
}
