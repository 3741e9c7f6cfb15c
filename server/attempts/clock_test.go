package attempts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// podWithClock returns the engine of an API pod whose machine's clock differs from the real time by ahead.
func podWithClock(t *testing.T, pool *pgxpool.Pool, papers Papers, ahead time.Duration) *Service {
	t.Helper()
	start := time.Now()
	live := directory.New(directory.Config{Clock: func() directory.Reading {
		now := time.Now()
		return directory.Reading{Monotonic: now.Sub(start), Wall: now.Add(ahead).Round(0)}
	}}, pool)
	t.Cleanup(live.Close)
	testkit.Run(t, live.Run)
	testkit.Eventually(t, "the pod has a lease", live.Leased)
	service, err := NewService(Config{NamespaceSecret: make([]byte, minSecretBytes), Now: live.DatabaseTime}, pool, papers, silent{})
	check.NoError(t, err)
	return service
}

// silent is a Notifier that notifies no worker.
type silent struct{}

func (silent) Notify(...uuid.UUID) {}

// TestAttemptHasTheTimesOfTheDatabase: pods whose clocks are a minute or a day wrong decide as one with the right clock.
func TestAttemptHasTheTimesOfTheDatabase(t *testing.T) {
	t.Parallel()
	const (
		duration = minutes * time.Minute
		// tolerance is what a busy machine and a slow renewal can add, far below a clock's error.
		tolerance = 20 * time.Second
	)
	pool, papers := testkit.Database(t), newShelf(testExam)
	papers.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	pods := map[string]*Service{}
	for name, ahead := range map[string]time.Duration{
		"right": 0, "ahead": time.Minute, "behind": -time.Minute, "a day ahead": 25 * time.Hour, "a day behind": -25 * time.Hour,
	} {
		pods[name] = podWithClock(t, pool, papers, ahead)
	}
	for name, c := range map[string]struct {
		opens, submits string
		after          time.Duration // how long after opening the attempt is submitted
		late           bool
	}{
		"in the grace, submitted ahead":         {"right", "ahead", duration + grace/2, false},
		"in the grace, opened behind":           {"behind", "right", duration + grace/2, false},
		"in the grace, opened ahead":            {"ahead", "right", duration + grace/2, false},
		"in time, from behind to ahead":         {"behind", "ahead", duration - time.Minute, false},
		"in time, a day apart":                  {"a day behind", "a day ahead", time.Minute, false},
		"in time, a day apart the other way":    {"a day ahead", "a day behind", time.Minute, false},
		"late, opened ahead":                    {"ahead", "right", duration + 2*grace, true},
		"late, submitted behind":                {"right", "behind", duration + 2*grace, true},
		"late, and accepted by a pod far ahead": {"right", "a day ahead", duration + time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
			opened, err := pods[c.opens].Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
			check.NoError(t, err)
			testkit.Exec(t, pool, "UPDATE attempts SET opened_at = opened_at - $2::interval, expires_at = expires_at - $2::interval WHERE id = $1",
				opened.AttemptID, c.after)
			result, err := pods[c.submits].Submit(t.Context(), who, submission1(opened, ""))
			check.NoError(t, err)
			got := result.Feedback
			wantState := StateSubmitted
			if c.late {
				wantState = StateExpired
			}
			if got.Late != c.late || State(got.Status) != wantState {
				t.Errorf("state %s, late %v, want %s, %v", got.Status, got.Late, wantState, c.late)
			}
			if took := time.Duration(got.DurationSec) * time.Second; (took - c.after).Abs() > tolerance {
				t.Errorf("it took %s, want %s", took, c.after)
			}
			if over := time.Duration(got.OvertimeSec) * time.Second; c.late && (over-(c.after-duration)).Abs() > tolerance {
				t.Errorf("%s over time, want %s", over, c.after-duration)
			}
		})
	}
}

// TestPodAheadClosesNoAttempt: the statement that closes an overdue attempt goes by PostgreSQL's clock.
func TestPodAheadClosesNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "")
	ahead := b.time.Load().Add(minutes*time.Minute + lateWindow + time.Hour)
	b.time.Store(&ahead) // of the pod only
	result, err := b.Submit(t.Context(), who, submission1(opened, ""))
	if err != nil || result.Feedback.Outcome == nil {
		t.Errorf("got %s, %v, want a scored attempt", toJSON(t, result), err)
	}
}

// TestPaperDigestHasItsLength: PostgreSQL refuses another length, and without its CHECK the engine returns an error.
func TestPaperDigestHasItsLength(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	for name, digest := range map[string][]byte{"empty": {}, "short": make([]byte, 31), "long": make([]byte, 33)} {
		_, err := b.pool.Exec(t.Context(), "UPDATE attempts SET paper_digest = $2 WHERE id = $1", b.open(t, who, name).AttemptID, digest)
		if refusal, ok := errors.AsType[*pgconn.PgError](err); !ok || refusal.Code != "23514" {
			t.Errorf("%s: %v, want a violated CHECK", name, err)
		}
	}
	testkit.Exec(t, b.pool, "ALTER TABLE attempts DROP CONSTRAINT attempts_paper_digest_check")
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind()) // so that a page asks for the attempt's revision
	pod := b.pod(t)                                                        // it opened no attempt, so it reads them
	for name, digest := range map[string][]byte{"empty": {}, "short": make([]byte, 31), "long": make([]byte, 33)} {
		opened := b.open(t, who, name)
		testkit.Exec(t, b.pool, "UPDATE attempts SET paper_digest = $2 WHERE paper_id = $1", testPaper, digest)
		if _, err := pod.Submit(t.Context(), who, submission1(opened, name)); err == nil || !strings.Contains(err.Error(), "paper digest") {
			t.Errorf("%s: submission: %v", name, err)
		}
		_, err := b.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1, LearnerID: name})
		if err == nil || !strings.Contains(err.Error(), "paper digest") {
			t.Errorf("%s: page: %v", name, err)
		}
	}
}
