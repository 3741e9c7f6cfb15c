package httpapi

import (
	"encoding/hex"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"examprep.dev/server/catalog"
)

// examList renders the list of exams, locally relevant ones first. There are as many different lists as countries with
// exams (two of them at most come first), so each is rendered once per state of the catalogue and kept.
type examList struct {
	countries *countries
	current   atomic.Pointer[renderedList]
}

// renderedList is the lists of one state of the catalogue. It holds on to entries, so the address of the first one
// identifies that state.
type renderedList struct {
	entries []catalog.ExamEntry
	// places is where each entry belongs, as countries.identify names it.
	places []string
	// names are the countries' names as the exams themselves give them, folded, where nobody else knows them.
	names     map[string]string
	documents sync.Map // [2]string → catalog.Document
}

func newExamList() *examList { return &examList{countries: newCountries()} }

// document returns the body {"exams": […]}: exams of countryCode first, then those of country, then the others; in each
// the catalogue's own order. Neither ever filters. "" is no wish; a place without exams changes nothing.
func (l *examList) document(entries []catalog.ExamEntry, country, countryCode string) catalog.Document {
	list := l.current.Load()
	if list == nil || !sameSlice(list.entries, entries) {
		list = l.newList(entries)
		l.current.Store(list)
	}
	wanted := [2]string{list.known(l.countries.identify(countryCode)), list.known(l.countries.identify(country))}
	if wanted[0] == wanted[1] {
		wanted[1] = ""
	}
	if stored, rendered := list.documents.Load(wanted); rendered {
		if document, ok := stored.(catalog.Document); ok {
			return document
		}
	}
	document := list.render(wanted)
	list.documents.Store(wanted, document)
	return document
}

func sameSlice(a, b []catalog.ExamEntry) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (l *examList) newList(entries []catalog.ExamEntry) *renderedList {
	list := &renderedList{entries: entries, places: make([]string, len(entries)), names: make(map[string]string)}
	for i, entry := range entries {
		name := l.countries.identify(entry.Country)
		if list.places[i] = l.countries.identify(entry.CountryCode); list.places[i] == "" {
			list.places[i] = name
		}
		if !l.countries.knows(name) && list.names[name] == "" {
			list.names[name] = list.places[i]
		}
	}
	return list
}

// known returns place if an exam belongs there, else "": that bounds the number of lists kept.
func (l *renderedList) known(place string) string {
	if named, ours := l.names[place]; ours {
		place = named
	}
	if place != "" && slices.Contains(l.places, place) {
		return place
	}
	return ""
}

func (l *renderedList) render(wanted [2]string) catalog.Document {
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
	digest := fnv.New128a()
	_, _ = digest.Write(body)
	return catalog.Document{JSON: body, ETag: `"` + hex.EncodeToString(digest.Sum(nil)) + `"`}
}
