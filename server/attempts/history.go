package attempts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
)

// HistoryRequest asks for a page of past and running attempts on an exam.
type HistoryRequest struct {
	ExamKey string
	// LearnerID narrows the list to one learner; empty: all of the key's attempts, with a learner or without.
	LearnerID string
	// Limit, at most 50, and Offset count attempts, newest first.
	Limit, Offset int
}

// Summary is one attempt of the history: MockAttemptSummary (docs/spec.md, part 2).
type Summary struct {
	AttemptID string `json:"attempt_id"`
	PaperID   string `json:"paper_id"`
	// Score is nil unless the attempt was scored.
	Score *marking.Percentage `json:"score,omitempty"`
	// SubmittedAt is nil while in progress, and for good when the sweep closed the attempt.
	SubmittedAt *time.Time `json:"submitted_at,omitempty"`
	State       State      `json:"state"`
	OpenedAt    time.Time  `json:"opened_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// History is a page of attempts.
type History struct {
	Attempts []Summary `json:"attempts"`
	// Total is how many attempts the whole list has.
	Total int64 `json:"total"`
}

// maxPage is the largest page; the queries' own limit is the same.
const maxPage = 50

// History lists the attempts of a key's family on an exam, newest first. The time it takes depends on the page's size
// alone. An exam that was withdrawn keeps its history; one that neither is served nor was ever opened is not found.
func (s *Service) History(ctx context.Context, who keys.Identity, req HistoryRequest) (History, error) {
	leave, err := s.bulkhead.Enter(ctx, postgres.HistoryReads, who.FamilyID)
	if err != nil {
		return History{}, fmt.Errorf("read history: %w", err)
	}
	defer leave()
	rows, err := s.historyRows(ctx, who, req)
	if err != nil {
		return History{}, fmt.Errorf("read history: %w", err)
	}
	history := History{Attempts: make([]Summary, len(rows))}
	if len(rows) == 0 {
		history.Total, err = s.countAttempts(ctx, who, req)
		return history, err
	}
	history.Total = rows[0].Total
	now := s.clock()
	for i, row := range rows {
		history.Attempts[i] = summarise(row, now)
	}
	return history, nil
}

// countAttempts returns the total of a history whose page is empty. An exam for which the key has an attempt exists, also if it is
// not served and the attempt is another learner's.
func (s *Service) countAttempts(ctx context.Context, who keys.Identity, req HistoryRequest) (int64, error) {
	total, err := s.queries.CountAttempts(ctx, attemptsdb.CountAttemptsParams{
		FamilyID: who.FamilyID, ExamKey: req.ExamKey, Learner: s.learner(who, req.LearnerID),
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return total, err
	}
	return 0, s.checkExam(req.ExamKey)
}

func (s *Service) historyRows(
	ctx context.Context, who keys.Identity, req HistoryRequest,
) ([]attemptsdb.KeyHistoryRow, error) {
	skip, size := int64(max(req.Offset, 0)), int64(min(max(req.Limit, 0), maxPage))
	if req.LearnerID == "" {
		return s.queries.KeyHistory(ctx, attemptsdb.KeyHistoryParams{
			Skip: skip, PageSize: size, FamilyID: who.FamilyID, ExamKey: req.ExamKey,
		})
	}
	found, err := s.queries.LearnerHistory(ctx, attemptsdb.LearnerHistoryParams{
		Skip: skip, PageSize: size, FamilyID: who.FamilyID, ExamKey: req.ExamKey, Learner: s.learner(who, req.LearnerID),
	})
	rows := make([]attemptsdb.KeyHistoryRow, len(found))
	for i, row := range found {
		rows[i] = attemptsdb.KeyHistoryRow(row)
	}
	return rows, err
}

// summarise renders one row. An attempt whose time is over reads as expired even before the sweep has closed it.
func summarise(row attemptsdb.KeyHistoryRow, now time.Time) Summary {
	summary := Summary{
		AttemptID: row.ID.String(), PaperID: row.PaperID, State: State(row.State),
		OpenedAt: row.OpenedAt.UTC(), ExpiresAt: utc(row.ExpiresAt), SubmittedAt: utc(row.SubmittedAt),
	}
	if row.ScoreHundredths != nil {
		summary.Score = new(marking.Percentage(*row.ScoreHundredths))
	}
	if summary.State == StateInProgress && deadlinePassed(summary.ExpiresAt, now, lateWindow) {
		summary.State = StateExpired
	}
	return summary
}
