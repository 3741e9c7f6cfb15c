package httpapi

import (
	"context"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
)

const (
	maxHistoryLimit     = 50
	defaultHistoryLimit = 10
)

// listMockAttempts lists the key's attempts on an exam, newest first; of one learner where learner_id says whose.
func (s *Server) listMockAttempts(ctx context.Context, r *request) error {
	wanted := attempts.HistoryRequest{Limit: defaultHistoryLimit}
	var err error
	if wanted.ExamKey, err = examKey(r); err != nil {
		return err
	}
	query := readQuery(r.http)
	query.integer("limit", &wanted.Limit, 1, maxHistoryLimit)
	query.integer("offset", &wanted.Offset, 0, unbounded)
	query.text("learner_id", &wanted.LearnerID, maxLearnerID)
	if err := query.err(); err != nil {
		return err
	}
	history, err := s.attempts.History(ctx, r.identity, wanted)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, history)
}
