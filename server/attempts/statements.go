package attempts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/attemptsdb"
)

// statements are the statements of a [writer].
type statements struct {
	queries *attemptsdb.Queries
	// lockTimeout bounds the wait for each locked row, in milliseconds.
	lockTimeout string
}

// counter names a row of attempt_counters.
type counter struct {
	family  uuid.UUID
	exam    string
	learner string // bytes; empty for all learners together
}

// compareCounters is the order in which all statements lock counters: by bytes, as PostgreSQL sorts with COLLATE "C".
func compareCounters(a, b counter) int {
	return cmp.Or(bytes.Compare(a.family[:], b.family[:]), strings.Compare(a.exam, b.exam), strings.Compare(a.learner, b.learner))
}

func keyCounter(p attemptsdb.OpenAttemptParams) counter {
	return counter{family: p.FamilyID, exam: p.ExamKey}
}

func learnerCounter(p attemptsdb.OpenAttemptParams) counter {
	return counter{family: p.FamilyID, exam: p.ExamKey, learner: string(p.Learner)}
}

func (s statements) openOne(ctx context.Context, p attemptsdb.OpenAttemptParams) (struct{}, error) {
	p.LockTimeout = s.lockTimeout
	return struct{}{}, s.queries.OpenAttempt(ctx, p)
}

// openMany opens attempts in one statement. Their sequence numbers are in the order of the calls.
func (s statements) openMany(ctx context.Context, calls []attemptsdb.OpenAttemptParams) ([]struct{}, error) {
	counts := map[counter]int64{}
	for _, call := range calls {
		counts[keyCounter(call)]++
		if len(call.Learner) > 0 {
			counts[learnerCounter(call)]++
		}
	}
	p := attemptsdb.OpenAttemptsParams{LockTimeout: s.lockTimeout}
	places := make(map[counter]int32, len(counts)) // subscripts in PostgreSQL, so from 1
	for i, c := range slices.SortedFunc(maps.Keys(counts), compareCounters) {
		places[c] = int32(i + 1)
		p.CounterFamilies, p.CounterExams = append(p.CounterFamilies, c.family), append(p.CounterExams, c.exam)
		p.CounterLearners, p.CounterOpened = append(p.CounterLearners, []byte(c.learner)), append(p.CounterOpened, counts[c])
	}
	// take returns the place of a counter, and the number of attempts that it counts after this one.
	take := func(c counter) (place int32, after int64) {
		counts[c]--
		return places[c], counts[c]
	}
	for _, call := range calls {
		place, after := take(keyCounter(call))
		p.KeyCounters, p.KeyAfter = append(p.KeyCounters, place), append(p.KeyAfter, after)
		place, after = 0, 0
		if len(call.Learner) > 0 {
			place, after = take(learnerCounter(call))
		}
		p.LearnerCounters, p.LearnerAfter = append(p.LearnerCounters, place), append(p.LearnerAfter, after)
		p.Ids, p.AccountIds = append(p.Ids, call.ID), append(p.AccountIds, call.AccountID)
		p.FamilyIds, p.KeyIds = append(p.FamilyIds, call.FamilyID), append(p.KeyIds, call.KeyID)
		p.ExamKeys, p.PaperIds = append(p.ExamKeys, call.ExamKey), append(p.PaperIds, call.PaperID)
		p.PaperDigests, p.Learners = append(p.PaperDigests, call.PaperDigest), append(p.Learners, call.Learner)
		p.QuestionCounts = append(p.QuestionCounts, call.QuestionCount)
		p.OpenedAt, p.ExpiresAt = append(p.OpenedAt, call.OpenedAt), append(p.ExpiresAt, orZero(call.ExpiresAt))
	}
	err := s.queries.OpenAttempts(ctx, p)
	if err == nil {
		err = s.flush(ctx, p.Ids[0])
	}
	return make([]struct{}, len(calls)), err
}

// flush returns when an attempt and all earlier commits are durable. It can run on another connection than the statement that
// opened the attempt, and so on a server that lost the attempt when it restarted or was promoted. It fails with an *unflushedError.
func (s statements) flush(ctx context.Context, opened uuid.UUID) error {
	flushed, err := s.queries.FlushCommits(ctx, opened)
	if err != nil || flushed == 0 {
		return &unflushedError{err}
	}
	return nil
}

// unflushedError reports a batch of opens that is committed but perhaps not on disk. Its attempts may exist, so it must not run
// again, and the cause is not in the chain.
type unflushedError struct {
	cause error // nil if PostgreSQL has lost the attempts
}

func (e *unflushedError) Error() string {
	if e.cause == nil {
		return "PostgreSQL has lost the new attempts before they were on disk: open again"
	}
	return fmt.Sprintf("PostgreSQL has not confirmed that the new attempts are on disk: open again: %v", e.cause)
}

// Unwrap makes it an outage: a retry of the client can succeed.
func (*unflushedError) Unwrap() error { return net.ErrClosed }

func (s statements) findOne(ctx context.Context, id uuid.UUID) (*attemptRow, error) {
	found, err := s.findMany(ctx, []uuid.UUID{id})
	return found[0], err
}

// findMany returns nil for an id without an attempt. The owners of the attempts are not checked.
func (s statements) findMany(ctx context.Context, ids []uuid.UUID) ([]*attemptRow, error) {
	rows, err := s.queries.FindAttempt(ctx, ids)
	byID := make(map[uuid.UUID]*attemptRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = (*attemptRow)(&rows[i])
	}
	found := make([]*attemptRow, len(ids))
	for i, id := range ids {
		found[i] = byID[id]
	}
	return found, err
}

func (s statements) closeOne(ctx context.Context, p attemptsdb.CloseAttemptParams) (attemptsdb.CloseAttemptRow, error) {
	p.LockTimeout = s.lockTimeout
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
	p := attemptsdb.CloseAttemptsParams{LockTimeout: s.lockTimeout}
	inOrder := func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) } // PostgreSQL's order
	for _, id := range slices.SortedFunc(maps.Keys(first), inOrder) {
		addClose(&p, calls[first[id]])
	}
	rows, err := s.queries.CloseAttempts(ctx, p)
	results := make([]attemptsdb.CloseAttemptRow, len(calls))
	for i, r := range rows {
		result := attemptsdb.CloseAttemptRow{Closed: true}
		if i == 0 { // each row has the endpoints of the whole batch
			result.Endpoints = r.Endpoints
		}
		results[first[r.ID]] = result
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

// orZero returns a time, or the zero time for none: an array parameter has no NULL.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
