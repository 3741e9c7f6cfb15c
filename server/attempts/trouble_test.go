package attempts

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/batch"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// impatientPod is a pod that hardly waits for locked rows.
func (b *bench) impatientPod(t *testing.T) *Service {
	t.Helper()
	service, err := NewService(Config{
		NamespaceSecret: make([]byte, minSecretBytes), Now: func() time.Time { return *b.time.Load() },
		BatchTimeout: testkit.Patience, LockTimeout: time.Millisecond,
	}, b.pool, b.shelf, b)
	check.NoError(t, err)
	t.Cleanup(service.Close)
	return service
}

// runTogether runs calls as one batch, and returns their errors.
func runTogether[Q, R any](t *testing.T, g *group[Q, R], all ...Q) []error {
	t.Helper()
	calls := make([]*batch.Call[call[Q], R], len(all))
	for i, params := range all {
		calls[i] = &batch.Call[call[Q], R]{Request: call[Q]{params: params, span: trace.SpanFromContext(t.Context())}}
	}
	_, errs := g.results(t.Context(), calls)
	return errs
}

// mustFailAlone checks that of several calls only one failed, and none if the row is only slow.
func mustFailAlone(t *testing.T, errs []error, bad int, trouble testkit.Trouble) {
	t.Helper()
	for i, err := range errs {
		if (err != nil) != (i == bad && trouble != testkit.Slow) {
			t.Errorf("call %d got %v", i, err)
		}
	}
}

// TestAnAttemptInTroubleCostsNoOtherSubmission closes attempts in one batch.
func TestAnAttemptInTroubleCostsNoOtherSubmission(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
			who, pod := b.someone(t), b.impatientPod(t)
			all := make([]attemptsdb.CloseAttemptParams, 8)
			for i := range all {
				id, now := uuid.MustParse(b.open(t, who, "").AttemptID), *b.time.Load()
				all[i] = attemptsdb.CloseAttemptParams{
					ID: id, State: string(StateSubmitted), ScoringStatus: notScored, SubmittedAt: &now, Answers: []byte("{}"),
					ExpiresAt: testkit.Get[*time.Time](t, b.pool, "SELECT expires_at FROM attempts WHERE id = $1", id),
				}
			}
			end := trouble.Begin(t, b.pool, "attempts", "id", all[3].ID.String())
			mustFailAlone(t, runTogether(t, pod.writer.closes, all...), 3, trouble)
			end()
			mustFailAlone(t, runTogether(t, pod.writer.closes, all[3]), -1, trouble)
			if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM attempts WHERE state = 'submitted'"); n != len(all) {
				t.Errorf("%d attempts are closed, want %d", n, len(all))
			}
		})
	}
}

// TestACounterInTroubleCostsNoOtherFamilysOpen opens attempts of several families in one batch.
func TestACounterInTroubleCostsNoOtherFamilysOpen(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
			pod := b.impatientPod(t)
			all := make([]attemptsdb.OpenAttemptParams, 8)
			for i := range all {
				who := b.someone(t)
				b.open(t, who, "")
				all[i] = openParams(who, *b.time.Load())
			}
			end := trouble.Begin(t, b.pool, "attempt_counters", "family_id", all[3].FamilyID.String())
			mustFailAlone(t, runTogether(t, pod.writer.opens, all...), 3, trouble)
			end()
			if trouble != testkit.Slow {
				mustFailAlone(t, runTogether(t, pod.writer.opens, all[3]), -1, trouble)
			}
			if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM attempts"); n != 2*len(all) {
				t.Errorf("%d attempts, want %d", n, 2*len(all))
			}
			checkCounters(t, b.pool)
		})
	}
}

// TestAnOverdueAttemptInTroubleCostsNoOther sweeps attempts that are overdue.
func TestAnOverdueAttemptInTroubleCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
			who := b.someone(t)
			var opened []string
			for range 4 {
				opened = append(opened, b.open(t, who, "").AttemptID)
			}
			b.advance(minutes*time.Minute + lateWindow + time.Second)
			end, left := trouble.Begin(t, b.pool, "attempts", "id", opened[0]), 1
			if trouble == testkit.Slow {
				left = 0
			}
			for _, want := range []int{len(opened) - left, 0} {
				closed, err := b.Sweep(t.Context())
				check.NoError(t, err)
				check.Equal(t, closed, want, "attempts closed beside one that is %s", trouble)
			}
			end()
			closed, err := b.Sweep(t.Context())
			check.NoError(t, err)
			check.Equal(t, closed, left, "attempts closed afterwards")
		})
	}
}

func openParams(who keys.Identity, now time.Time) attemptsdb.OpenAttemptParams {
	return attemptsdb.OpenAttemptParams{
		ID: uuid.New(), AccountID: who.AccountID, FamilyID: who.FamilyID, KeyID: who.KeyID, ExamKey: testExam, PaperID: testPaper,
		PaperDigest: make([]byte, 32), Learner: []byte{}, QuestionCount: 1, OpenedAt: now,
	}
}
