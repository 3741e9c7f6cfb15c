package attempts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// podsWithClocks returns the engines of API pods, by name. The clock of each pod's machine differs from the database's by a
// duration. All clocks stand still.
func (b *bench) podsWithClocks(t *testing.T, ahead map[string]time.Duration) map[string]*Service {
	t.Helper()
	testkit.Exec(t, b.pool, "CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT at FROM clock.reading'")
	leases := testkit.Open(t, b.pool.Config().ConnString()+"&search_path=clock,public,pg_catalog") // each lease has its own connection
	pods := map[string]*Service{}
	for name, difference := range ahead {
		live := directory.New(directory.Config{Clock: func() directory.Reading {
			now := b.time.Load().Add(difference)
			return directory.Reading{Monotonic: time.Duration(now.UnixNano()), Wall: now}
		}}, leases)
		t.Cleanup(live.Close)
		testkit.Run(t, live.Run)
		testkit.Eventually(t, "the pod has a lease", live.Leased)
		service, err := NewService(Config{
			NamespaceSecret: make([]byte, minSecretBytes), Now: live.DatabaseTime, BatchTimeout: testkit.Patience, LockTimeout: testkit.Patience,
		}, b.pool, b.shelf, b)
		check.NoError(t, err)
		t.Cleanup(service.Close)
		pods[name] = service
	}
	return pods
}

// TestAttemptHasTheTimesOfTheDatabase: pods whose clocks are a minute or a day wrong decide as one with the right clock.
func TestAttemptHasTheTimesOfTheDatabase(t *testing.T) {
	t.Parallel()
	const duration = minutes * time.Minute
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	pods := b.podsWithClocks(t, map[string]time.Duration{
		"ahead": time.Minute, "behind": -time.Minute, "a day ahead": 25 * time.Hour, "a day behind": -25 * time.Hour,
	})
	for name, c := range map[string]struct {
		opens, submits string
		after          time.Duration // how long after opening the attempt is submitted
		late           bool
	}{
		"in the grace, opened behind and submitted ahead": {"behind", "ahead", duration + grace/2, false},
		"late, opened ahead and submitted behind":         {"ahead", "behind", duration + 3*grace/2, true},
		"late, and accepted by a pod far ahead":           {"a day behind", "a day ahead", duration + time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
			opened, err := pods[c.opens].Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
			check.NoError(t, err)
			testkit.Exec(t, b.pool, "UPDATE attempts SET opened_at = opened_at - $2::interval, expires_at = expires_at - $2::interval WHERE id = $1",
				opened.AttemptID, c.after)
			result, err := pods[c.submits].Submit(t.Context(), who, submission1(opened, ""))
			check.NoError(t, err)
			got, state, overtime := result.Feedback, StateSubmitted, time.Duration(0)
			if c.late {
				state, overtime = StateExpired, c.after-duration
			}
			if got.Late != c.late || State(got.Status) != state {
				t.Errorf("state %s, late %v, want %s, %v", got.Status, got.Late, state, c.late)
			}
			check.Equal(t, time.Duration(got.DurationSec)*time.Second, c.after, "time that it took")
			check.Equal(t, time.Duration(got.OvertimeSec)*time.Second, overtime, "time over the limit")
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
