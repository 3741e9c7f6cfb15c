package httpapi

import (
	"context"
	"fmt"

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
	if err := decodeQuery(r.http.URI().QueryString(),
		queryInteger("limit", &wanted.Limit, 1, maxHistoryLimit),
		queryInteger("offset", &wanted.Offset, 0, unbounded),
		queryText("learner_id", &wanted.LearnerID, maxLearnerID),
	); err != nil {
		return err
	}
	history, err := s.attempts.History(ctx, r.identity, wanted)
	if err != nil {
		return err
	}
	body, err := encode(history)
	if err != nil {
		return fmt.Errorf("encode history: %w", err)
	}
	writeJSON(r.http, body)
	return nil
}
