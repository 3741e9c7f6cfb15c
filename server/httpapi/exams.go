package httpapi

import (
	"context"

	"examprep.dev/server/catalog"
)

// listExams lists every exam; country and country_code put the locally relevant ones first and leave none out.
func (s *Server) listExams(_ context.Context, r *request) error {
	var country, countryCode string
	if err := decodeQuery(r.http.URI().QueryString(),
		queryText("country", &country, maxCountryName),
		queryCountryCode("country_code", &countryCode),
	); err != nil {
		return err
	}
	s.writeDocument(r.http, s.list.document(s.catalog.List(), country, countryCode))
	return nil
}

// maxCountryName bounds what is folded and looked up; the longest name on record has 59 characters.
const maxCountryName = 200

func (s *Server) getExamOverview(_ context.Context, r *request) error {
	return s.examDocument(r, s.catalog.Overview)
}

func (s *Server) getExamResources(_ context.Context, r *request) error {
	return s.examDocument(r, s.catalog.Resources)
}

func (s *Server) getExamStudyPath(_ context.Context, r *request) error {
	return s.examDocument(r, s.catalog.StudyPath)
}

// listMockPapers sends the catalogue of an exam's papers, by year.
func (s *Server) listMockPapers(_ context.Context, r *request) error {
	return s.examDocument(r, s.catalog.Papers)
}

// examDocument sends one of an exam's finished documents.
func (s *Server) examDocument(r *request, find func(examKey string) (catalog.Document, bool)) error {
	key, err := examKey(r)
	if err != nil {
		return err
	}
	document, served := find(key)
	if !served {
		return examNotFound()
	}
	s.writeDocument(r.http, document)
	return nil
}
