package attempts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
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
		expiresAt = new(openedAt.Add(time.Duration(paper.DurationMinutes) * time.Minute))
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

// PageRequest asks for a page of a paper's questions.
type PageRequest struct {
	// These are as in OpenRequest.
	ExamKey, PaperID string
	Offset, Limit    int
	LearnerID        string
	// AttemptID is the attempt whose revision is paged; empty: that of the newest attempt in progress, else the published one.
	AttemptID string
}

// Page is a page of questions.
type Page struct {
	// Questions are finished JSON objects, shared with other requests: read only.
	Questions [][]byte
	// Total is how many questions the paper has.
	Total int
}

// Page reads questions and changes nothing: no timer starts. With an attempt of the same key, learner and paper in
// progress it reads the revision that the newest of them opened, else the published one. Only where these can differ
// does it ask Postgres. With an attempt's id it reads that attempt's revision, also if the attempt has ended.
func (s *Service) Page(ctx context.Context, who keys.Identity, req PageRequest) (Page, error) {
	if req.AttemptID != "" {
		return s.pageOfAttempt(ctx, who, req)
	}
	paper, err := s.papers.Paper(ctx, req.ExamKey, req.PaperID)
	_, withdrawn := errors.AsType[*catalog.NotFoundError](err)
	_, unreadable := errors.AsType[*catalog.UnreadableError](err)
	if err != nil && !withdrawn && !unreadable { // else attempts in progress still read the revision that they opened
		return Page{}, translate(err)
	}
	others := err != nil || s.papers.HasOtherRevisions(req.ExamKey, req.PaperID)
	if !others && s.papers.Current(req.ExamKey) {
		return pageOf(paper, req), nil
	}
	digest, sitting, lookUpErr := s.inHand(ctx, who, req)
	if !others && postgres.Unavailable(lookUpErr) { // the paper is cached, and a page of it needs no database
		return pageOf(paper, req), nil
	}
	if lookUpErr != nil {
		return Page{}, lookUpErr
	}
	if sitting && (paper == nil || paper.Digest != digest) {
		paper, err = s.papers.Revision(ctx, req.ExamKey, digest)
	}
	if err != nil {
		return Page{}, translate(err)
	}
	return pageOf(paper, req), nil
}

// pageOfAttempt reads questions of the revision that an attempt opened.
func (s *Service) pageOfAttempt(ctx context.Context, who keys.Identity, req PageRequest) (Page, error) {
	attempt, err := s.find(ctx, who, req.ExamKey, req.AttemptID, req.LearnerID)
	if err != nil {
		return Page{}, err
	}
	if attempt.PaperID != req.PaperID {
		return Page{}, attemptNotFound()
	}
	digest, err := paperDigest(attempt.PaperDigest)
	if err != nil {
		return Page{}, err
	}
	paper, err := s.papers.Revision(ctx, req.ExamKey, digest)
	if err != nil {
		return Page{}, translate(err)
	}
	return pageOf(paper, req), nil
}

func pageOf(paper *read.PaperRevision, req PageRequest) Page {
	return Page{Questions: page(paper.Questions, req.Offset, req.Limit), Total: len(paper.Questions)}
}

// page returns at most limit questions from offset on, and none if offset is beyond the end.
func page(questions [][]byte, offset, limit int) [][]byte {
	from := min(max(offset, 0), len(questions))
	to := from + min(max(limit, 0), len(questions)-from)
	return questions[from:to:to]
}

// inHand returns the revision of the newest attempt in progress on the paper, and whether there is one.
func (s *Service) inHand(ctx context.Context, who keys.Identity, req PageRequest) (catalog.Digest, bool, error) {
	leave, err := s.bulkhead.Enter(ctx, postgres.HistoryReads, who.FamilyID)
	if err != nil {
		return catalog.Digest{}, false, fmt.Errorf("find attempt in progress: %w", err)
	}
	defer leave()
	stored, err := s.queries.FindInHand(ctx, attemptsdb.FindInHandParams{
		FamilyID: who.FamilyID, ExamKey: req.ExamKey, PaperID: req.PaperID,
		Learner: s.learner(who, req.LearnerID), DueSince: new(s.clock().Add(-lateWindow)),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return catalog.Digest{}, false, nil
	}
	if err != nil {
		return catalog.Digest{}, false, fmt.Errorf("find attempt in progress: %w", err)
	}
	digest, err := paperDigest(stored)
	return digest, err == nil, err
}

// paperDigest returns the digest that an attempt has stored. A CHECK keeps its length; without it a conversion could panic.
func paperDigest(stored []byte) (digest catalog.Digest, err error) {
	if len(stored) != len(digest) {
		return digest, fmt.Errorf("attempt with a paper digest of %d bytes, not %d", len(stored), len(digest))
	}
	return catalog.Digest(stored), nil
}
