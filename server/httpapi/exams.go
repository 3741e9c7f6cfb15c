package httpapi

import (
	"context"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

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

// examKey decodes the path parameter, once. What cannot be an exam's key (broken encoding, control characters) names no
// exam: the specification knows 404 for these paths and no 400. The key is a copy: caches keep it.
func examKey(r *request) (string, error) {
	segment, _ := r.http.UserValue("exam_key").(string)
	if strings.IndexByte(segment, '%') < 0 {
		segment = strings.Clone(segment)
	} else {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return "", examNotFound()
		}
		segment = decoded
	}
	if !utf8.ValidString(segment) || strings.ContainsFunc(segment, unicode.IsControl) {
		return "", examNotFound()
	}
	return segment, nil
}
