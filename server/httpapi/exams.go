package httpapi

import (
	"context"

	"examprep.dev/server/catalog"
)

// listExams lists every exam; country and country_code put the locally relevant ones first and leave none out.
func (s *Server) listExams(ctx context.Context, r *request) error {
	var country string
	query := readQuery(r.http)
	query.text("country", &country, maxCountryName)
	countryCode := query.match("country_code", "must be two letters (ISO 3166-1 alpha-2)", isCountryCode)
	if err := query.err(); err != nil {
		return err
	}
	document, err := s.list.document(ctx, country, countryCode)
	if err != nil {
		return err
	}
	s.writeDocument(ctx, r, document)
	return nil
}

// maxCountryName bounds what is folded and looked up; the longest name on record has 59 characters.
const maxCountryName = 200

func (s *Server) getExamOverview(ctx context.Context, r *request) error {
	return s.examDocument(ctx, r, s.catalog.Overview)
}

func (s *Server) getExamResources(ctx context.Context, r *request) error {
	return s.examDocument(ctx, r, s.catalog.Resources)
}

func (s *Server) getExamStudyPath(ctx context.Context, r *request) error {
	return s.examDocument(ctx, r, s.catalog.StudyPath)
}

// listMockPapers sends the catalogue of an exam's papers, by year.
func (s *Server) listMockPapers(ctx context.Context, r *request) error {
	return s.examDocument(ctx, r, s.catalog.Papers)
}

// examDocument sends one of an exam's finished documents.
func (s *Server) examDocument(ctx context.Context, r *request, find func(examKey string) (catalog.Document, error)) error {
	key, err := examKey(r)
	if err != nil {
		return err
	}
	document, err := find(key)
	if is[*catalog.NotFoundError](err) {
		return examNotFound()
	}
	if err != nil {
		return err
	}
	s.writeDocument(ctx, r, document)
	return nil
}
