package attempts

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/attemptsdb"
)

// OpenRequest asks for a new attempt on a paper and its first page of questions.
type OpenRequest struct {
	ExamKey string
	PaperID string
	// Offset and Limit choose the questions, counted from 0 in paper order. Their bounds are the HTTP interface's.
	Offset, Limit int
	// LearnerID is the client's own name for the learner; empty for none.
	LearnerID string
}

// Opened is a new attempt.
type Opened struct {
	// AttemptID is a UUIDv7.
	AttemptID     string `json:"attempt_id"`
	PaperID       string `json:"paper_id"`
	QuestionCount int    `json:"question_count"`
	// Questions are finished JSON objects, shared with other requests: read only.
	Questions [][]byte  `json:"-"`
	State     State     `json:"state"`
	OpenedAt  time.Time `json:"opened_at"`
	// ExpiresAt is nil when neither paper nor exam has a time limit.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// Open starts an attempt on the published revision of a paper. Its clock starts now.
func (s *Service) Open(ctx context.Context, who keys.Identity, req OpenRequest) (Opened, error) {
	paper, err := s.papers.Paper(ctx, req.ExamKey, req.PaperID)
	if err != nil {
		return Opened{}, translate(err)
	}
	if err := s.papers.MarkOpened(ctx, req.ExamKey, paper.Digest); err != nil {
		return Opened{}, translate(err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Opened{}, fmt.Errorf("new attempt id: %w", err)
	}
	openedAt := s.clock()
	var expiresAt *time.Time
	if paper.DurationMinutes > 0 {
		deadline := openedAt.Add(time.Duration(paper.DurationMinutes) * time.Minute)
		expiresAt = &deadline
	}
	params := attemptsdb.OpenAttemptParams{
		ID: id, AccountID: who.AccountID, FamilyID: who.FamilyID, KeyID: who.KeyID,
		ExamKey: req.ExamKey, PaperID: req.PaperID, PaperDigest: paper.Digest[:], Learner: s.learner(who, req.LearnerID),
		QuestionCount: int32(len(paper.Questions)), OpenedAt: openedAt, ExpiresAt: expiresAt,
	}
	if _, err := s.writer.opens.do(ctx, who.FamilyID, params); err != nil {
		return Opened{}, fmt.Errorf("open attempt: %w", err)
	}
	s.remember(params)
	return Opened{
		AttemptID: id.String(), PaperID: req.PaperID, QuestionCount: len(paper.Questions),
		Questions: page(paper.Questions, req.Offset, req.Limit),
		State:     StateInProgress, OpenedAt: openedAt, ExpiresAt: expiresAt,
	}, nil
}
