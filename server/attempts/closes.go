package attempts

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/attemptsdb"
)

// findOne returns nil if there is no such attempt of the caller.
func (s statements) findOne(ctx context.Context, p attemptsdb.FindAttemptParams) (*attemptsdb.FindAttemptRow, error) {
	row, err := s.queries.FindAttempt(ctx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // a missing row is not an error
	}
	return &row, err
}

func (s statements) findMany(ctx context.Context, calls []attemptsdb.FindAttemptParams) ([]*attemptsdb.FindAttemptRow, error) {
	var p attemptsdb.FindAttemptsParams
	for i, call := range calls {
		p.Places, p.Ids = append(p.Places, int32(i)), append(p.Ids, call.ID)
		p.FamilyIds, p.ExamKeys = append(p.FamilyIds, call.FamilyID), append(p.ExamKeys, call.ExamKey)
		p.Learners = append(p.Learners, call.Learner)
	}
	rows, err := s.queries.FindAttempts(ctx, p)
	found := make([]*attemptsdb.FindAttemptRow, len(calls))
	for _, r := range rows {
		found[r.Place] = &attemptsdb.FindAttemptRow{
			ID: r.ID, PaperID: r.PaperID, PaperDigest: r.PaperDigest, State: r.State, ScoringStatus: r.ScoringStatus,
			QuestionCount: r.QuestionCount, OpenedAt: r.OpenedAt, ExpiresAt: r.ExpiresAt, SubmittedAt: r.SubmittedAt,
			Late: r.Late, OvertimeSec: r.OvertimeSec, ScoreHundredths: r.ScoreHundredths, Answers: r.Answers,
			SubmissionDigest: r.SubmissionDigest,
		}
	}
	return found, err
}

func (s statements) closeOne(ctx context.Context, p attemptsdb.CloseAttemptParams) (attemptsdb.CloseAttemptRow, error) {
	return s.queries.CloseAttempt(ctx, p)
}

// closeMany closes attempts in one statement. If several calls have one attempt, the first of them closes it, and the
// others get the result of a lost race.
func (s statements) closeMany(ctx context.Context, calls []attemptsdb.CloseAttemptParams) ([]attemptsdb.CloseAttemptRow, error) {
	first := make(map[uuid.UUID]int, len(calls))
	for i, call := range calls {
		if _, repeated := first[call.ID]; !repeated {
			first[call.ID] = i
		}
	}
	var p attemptsdb.CloseAttemptsParams
	for _, id := range slices.SortedFunc(maps.Keys(first), compareIDs) {
		addClose(&p, calls[first[id]])
	}
	rows, err := s.queries.CloseAttempts(ctx, p)
	results := make([]attemptsdb.CloseAttemptRow, len(calls))
	for _, r := range rows {
		results[first[r.ID]] = attemptsdb.CloseAttemptRow{Closed: true, Deliveries: r.Deliveries}
	}
	return results, err
}

// addClose adds an attempt and its events to a batch's.
func addClose(p *attemptsdb.CloseAttemptsParams, call attemptsdb.CloseAttemptParams) {
	score := int32(-1)
	if call.ScoreHundredths != nil {
		score = *call.ScoreHundredths
	}
	p.Ids, p.States = append(p.Ids, call.ID), append(p.States, call.State)
	p.ScoringStatuses, p.SubmittedAt = append(p.ScoringStatuses, call.ScoringStatus), append(p.SubmittedAt, *call.SubmittedAt)
	p.Late, p.OvertimeSec = append(p.Late, call.Late), append(p.OvertimeSec, call.OvertimeSec)
	p.Scores, p.Answers = append(p.Scores, score), append(p.Answers, call.Answers)
	p.SubmissionDigests, p.ExpiresAt = append(p.SubmissionDigests, call.SubmissionDigest), append(p.ExpiresAt, orZero(call.ExpiresAt))
	for i, id := range call.EventIds {
		p.EventAttempts, p.EventIds = append(p.EventAttempts, call.ID), append(p.EventIds, id)
		p.EventKinds, p.EventBodies = append(p.EventKinds, call.EventKinds[i]), append(p.EventBodies, call.EventBodies[i])
		p.EventTraceparents = append(p.EventTraceparents, call.Traceparent)
	}
}

// compareIDs orders UUIDs as PostgreSQL does.
func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// orZero returns a time, or the zero time for none: an array parameter has no NULL.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
