package httpapi

import "context"

// listMockPapers sends the catalogue of an exam's papers, by year.
func (s *Server) listMockPapers(_ context.Context, r *request) error {
	return s.examDocument(r, s.catalog.Papers)
}
