package httpapi

import (
	"context"
	"errors"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

// examPaths begins the paths that read the catalogue.
const examPaths = "/v1/exam-prep/"

// maxCountryName bounds what is folded and looked up; the longest name of CLDR has 59 characters.
const maxCountryName = 200

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
	query.Text("country", &country, maxCountryName)
	countryCode := query.Match("country_code", "must be two letters (ISO 3166-1 alpha-2)", isCountryCode)
	if err := query.Check(); err != nil {
		return err
	}
	document, err := h.list.document(ctx, country, countryCode)
	if err != nil {
		return err
	}
	h.send(ctx, r, document)
	return nil
}

// isCountryCode accepts two ASCII letters, in either case.
func isCountryCode(code string) bool {
	isLetter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	return len(code) == 2 && isLetter(code[0]) && isLetter(code[1])
}

// document sends a finished document of an exam.
func (h *examHandlers) document(find func(examKey string) (catalog.Document, error)) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		key, err := r.ExamKey()
		if err != nil {
			return err
		}
		document, err := find(key)
		if _, missing := errors.AsType[*catalog.NotFoundError](err); missing {
			return apierror.ExamNotFound()
		}
		if err != nil {
			return err
		}
		h.send(ctx, r, document)
		return nil
	}
}

func (h *examHandlers) send(ctx context.Context, r *endpoint.Request, document catalog.Document) {
	r.Represent(ctx, h.compressor, endpoint.Representation{Body: document.JSON, ETag: document.ETag, MediaType: "application/json"})
}
