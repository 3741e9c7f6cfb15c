package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

const (
	// examPaths begins the paths that read the catalogue.
	examPaths = "/v1/exam-prep/"
	// maxCountryName bounds what is folded and looked up; the longest name of CLDR has 59 characters.
	maxCountryName = 200
	// examListBudget bounds the kept orders of the exam list, in bytes.
	examListBudget = 32 << 20
)

// examHandlers have the routes of exams.
type examHandlers struct {
	catalog    Catalog
	list       *examList
	compressor *codec.Compressor
}

func newExamHandlers(from Catalog, compressor *codec.Compressor) *examHandlers {
	h := &examHandlers{catalog: from, list: newExamList(), compressor: compressor}
	from.OnChange(h.list.update)
	return h
}

func (h *examHandlers) routes() []endpoint.Route {
	route := func(path, operation string, handle endpoint.Handler) endpoint.Route {
		return endpoint.Route{Method: fasthttp.MethodGet, Path: examPaths + path, Operation: operation, Handle: handle}
	}
	return []endpoint.Route{
		route("list", "listExams", h.listExams),
		route("{exam_key}/overview", "getExamOverview", h.document(h.catalog.Overview)),
		route("{exam_key}/resources", "getExamResources", h.document(h.catalog.Resources)),
		route("{exam_key}/study-path", "getExamStudyPath", h.document(h.catalog.StudyPath)),
		route("{exam_key}/mock-exams", "listMockPapers", h.document(h.catalog.Papers)),
	}
}

// listExams lists all exams. country and country_code put local ones first; they leave none out.
func (h *examHandlers) listExams(ctx context.Context, r *endpoint.Request) error {
	var country string
	query := r.Query()
	query.Text("country", &country, 0, maxCountryName)
	countryCode := query.Match("country_code", "must be two letters (ISO 3166-1 alpha-2)", isCountryCode)
	if err := query.Check(); err != nil {
		return err
	}
	document, ordered, err := h.list.document(ctx, country, countryCode)
	r.Own = ordered // the cache of orders can drop it before it is sent
	return h.send(ctx, r, document, err)
}

// isCountryCode accepts two ASCII letters, in either case.
func isCountryCode(code string) bool {
	isLetter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	return len(code) == 2 && isLetter(code[0]) && isLetter(code[1])
}

func (h *examHandlers) document(find func(examKey string) (read.Document, error)) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		document, err := find(r.ExamKey)
		return h.send(ctx, r, document, err)
	}
}

func (h *examHandlers) send(ctx context.Context, r *endpoint.Request, document read.Document, err error) error {
	if err == nil {
		sent := codec.Representation{Body: document.JSON, ETag: document.ETag, MediaType: "application/json"}
		h.compressor.Send(ctx, r.HTTP, sent)
	}
	return err
}

// examList renders the list of exams, locally relevant ones first.
type examList struct {
	countries map[string]string
	current   atomic.Pointer[orderedExams]
}

// orderedExams is the list for one state of the catalogue.
type orderedExams struct {
	entries []read.ExamEntry
	places  []string                               // of entries: ISO codes, or folded names that CLDR does not know
	names   map[string]string                      // the places by folded name: those of CLDR, then those of the exams themselves
	plain   read.Document                          // in the catalogue's own order
	others  *otter.Cache[[2]string, read.Document] // in orders that begin with one or two places
}

func newExamList() *examList { return &examList{countries: newCountries()} }

// update makes the list of another state of the catalogue.
func (l *examList) update(entries []read.ExamEntry) {
	list := &orderedExams{
		entries: entries, names: maps.Clone(l.countries),
		others: otter.Must(&otter.Options[[2]string, read.Document]{
			MaximumWeight: examListBudget,
			Weigher:       func(_ [2]string, d read.Document) uint32 { return uint32(min(len(d.JSON), math.MaxUint32)) },
		}),
	}
	folded := map[string]string{} // exams share their countries
	foldOnce := func(name string) string {
		if _, known := folded[name]; !known {
			folded[name] = fold(name)
		}
		return folded[name]
	}
	for _, entry := range entries {
		name := foldOnce(entry.Country)
		place := l.place(cmp.Or(foldOnce(entry.CountryCode), name))
		list.places = append(list.places, place)
		if _, known := list.names[name]; !known && name != "" {
			list.names[name] = place
		}
	}
	list.plain = list.render([2]string{})
	l.current.Store(list)
}

// place is what countries are compared by: the ISO code of a folded name or code, if CLDR has it, else the name itself.
func (l *examList) place(folded string) string { return cmp.Or(l.countries[folded], folded) }

// document returns the body {"exams": […]}: exams of countryCode first, then those of country, then the others, each in the
// catalogue's own order. Neither ever filters; "" and a place without exams change nothing. ordered reports whether any of them did.
func (l *examList) document(ctx context.Context, country, countryCode string) (document read.Document, ordered bool, err error) {
	list := l.current.Load()
	wanted := [2]string{list.find(countryCode), list.find(country)}
	if wanted[0] == "" || wanted[0] == wanted[1] {
		wanted = [2]string{wanted[1]}
	}
	if wanted[0] == "" {
		return list.plain, false, nil
	}
	document, err = list.others.Get(ctx, wanted, otter.LoaderFunc[[2]string, read.Document](
		func(context.Context, [2]string) (read.Document, error) { return list.render(wanted), nil }))
	return document, true, err
}

// find returns the place of a name if an exam belongs there, else "".
func (l *orderedExams) find(name string) string {
	if name == "" {
		return ""
	}
	folded := fold(name)
	if place := cmp.Or(l.names[folded], folded); slices.Contains(l.places, place) {
		return place
	}
	return ""
}

// render writes the exams of the wanted places before the others.
func (l *orderedExams) render(wanted [2]string) read.Document {
	ranked := make([][][]byte, len(wanted)+1)
	for i, entry := range l.entries {
		rank := len(wanted)
		if place := slices.Index(wanted[:], l.places[i]); place >= 0 && l.places[i] != "" {
			rank = place
		}
		ranked[rank] = append(ranked[rank], entry.JSON)
	}
	body := slices.Concat([]byte(`{"exams":[`), bytes.Join(slices.Concat(ranked...), []byte{','}), []byte("]}"))
	return read.Document{JSON: body, ETag: read.ETag(body)}
}
