package attempts

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/attemptsdb"
)

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
	var p attemptsdb.OpenAttemptsParams
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
	return make([]struct{}, len(calls)), s.queries.OpenAttempts(ctx, p)
}
