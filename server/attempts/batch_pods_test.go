package attempts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/batch"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestPodsThatOpenForTheSameKeys has four pods open for the same keys, exams and learners, in any order.
func TestPodsThatOpenForTheSameKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	b.shelf.publish(otherExam, testPaper, minutes, markingtest.EveryKind())
	const pods, clients, rounds = 4, 48, 6
	families := make([]keys.Identity, 4)
	for i := range families {
		families[i] = keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
	}
	var all errgroup.Group
	var batches []*recorder[attemptsdb.OpenAttemptParams]
	for range pods {
		pod := b.pod(t)
		batches = append(batches, record(pod.writer.opens))
		for range clients {
			all.Go(func() error {
				for range rounds {
					_, err := pod.Open(t.Context(), families[rand.IntN(len(families))], OpenRequest{
						ExamKey: []string{testExam, otherExam}[rand.IntN(2)], PaperID: testPaper, LearnerID: []string{"", "ann", "bob", "cyd"}[rand.IntN(4)],
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	check.NoError(t, all.Wait())
	for _, r := range batches {
		if len(r.sizes()) == 0 {
			t.Error("a pod has run no batch")
		}
		check.NoError(t, errors.Join(r.errs...)) // deadlocks that a repetition has hidden
	}
	checkCounters(t, b.pool)
	if got := testkit.Get[int64](t, b.pool, "SELECT sum(total)::bigint FROM attempt_counters WHERE learner = ''"); got != pods*clients*rounds {
		t.Errorf("%d attempts, want %d", got, pods*clients*rounds)
	}
}

func TestAKeyFamilyFillsAQuarterOfABatchWhileOthersWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db := b.admin(t)
	batches := record(b.writer.opens)
	all := newOpeners(b, batchSize+1+batchesInFlight)
	busy, quiet, blocked := all[:batchSize], all[batchSize], all[batchSize+1:]
	for _, o := range busy {
		o.who.FamilyID = busy[0].who.FamilyID
	}
	for _, o := range all[batchSize:] {
		o.who.FamilyID = uuid.New()
	}
	table := testkit.Begin(t, db, "LOCK TABLE attempt_counters IN SHARE MODE")
	var c crew
	occupy(t, b.writer.opens, &c, func(i int) { blocked[i].open(t.Context(), b.Service) })
	for _, o := range busy {
		c.start(func() { o.open(t.Context(), b.Service) })
	}
	loaded(t, b.writer.opens, batchSize, batchesInFlight)
	c.start(func() { quiet.open(t.Context(), b.Service) }) // the last in the queue
	loaded(t, b.writer.opens, batchSize+1, batchesInFlight)
	testkit.Release(t, table)
	c.running.Wait()
	for _, o := range all {
		o.check(t, b, db)
	}
	for _, calls := range batches.batches {
		if !slices.ContainsFunc(calls, func(p attemptsdb.OpenAttemptParams) bool { return p.KeyID == quiet.who.KeyID }) {
			continue
		}
		if len(calls) != batchSize/4+1 {
			t.Errorf("the batch with the quiet key has %d calls, want a quarter of %d and its own", len(calls), batchSize)
		}
		return
	}
	t.Error("the quiet key was in no batch with others")
}

// atCommit makes commits that submit attempts call a piece of PL/pgSQL. NEW is the attempt's row.
func atCommit(t *testing.T, db testkit.Session, code string) {
	t.Helper()
	testkit.Exec(t, db, fmt.Sprintf("CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN %s; RETURN NULL; END $f$", code))
	testkit.Exec(t, db, `CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON attempts DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION at_commit()`)
}

// submitTogether submits in one batch: others hold the workers until all callers wait.
func submitTogether(t *testing.T, b *bench, db testkit.Session, submitters, blocked []*submitter) *crew {
	t.Helper()
	pool := b.admin(t)
	table := testkit.Begin(t, pool, "LOCK TABLE attempts IN SHARE MODE")
	var before, c crew
	occupy(t, b.writer.closes, &before, func(i int) { blocked[i].submit(t.Context(), b.Service) })
	for _, s := range submitters {
		c.start(func() { s.submit(t.Context(), b.Service) })
	}
	loaded(t, b.writer.closes, len(submitters), batchesInFlight)
	testkit.Release(t, table)
	before.running.Wait()
	for _, s := range blocked {
		s.check(t, db, false)
	}
	return &c
}

func TestNoAnswerComesBeforeItsCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db := b.admin(t)
	all := newSubmitters(t, b, batchSize+batchesInFlight)
	submitters, blocked := all[:batchSize], all[batchSize:]
	batches := record(b.writer.closes)
	atCommit(t, db, fmt.Sprintf("IF NEW.id = '%s' THEN PERFORM pg_advisory_xact_lock(38); END IF", submitters[9].req.AttemptID))
	commit := testkit.Begin(t, db, "SELECT pg_advisory_xact_lock(38)")
	c := submitTogether(t, b, db, submitters, blocked)
	testkit.Eventually(t, "the batch commits", func() bool {
		return testkit.Get[int64](t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
	})
	if got := c.answered.Load(); got != 0 {
		t.Errorf("%d callers were answered before the commit", got)
	}
	for _, s := range submitters {
		s.untouched(t, db)
	}
	testkit.Release(t, commit)
	c.running.Wait()
	for _, s := range submitters {
		s.check(t, db, false)
	}
	if got := batches.sizes(); !slices.Equal(got, []int{batchSize}) {
		t.Errorf("batches of %v calls", got)
	}
}

// TestAnErrorOfACommitIsTheErrorOfAllCallers has an error that no row is to blame for. It is not repeated.
func TestAnErrorOfACommitIsTheErrorOfAllCallers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db := b.admin(t)
	all := newSubmitters(t, b, batchSize+batchesInFlight)
	submitters, blocked := all[:batchSize], all[batchSize:]
	batches := record(b.writer.closes)
	atCommit(t, db, fmt.Sprintf("IF NEW.id = '%s' THEN RAISE 'disk full' USING ERRCODE = '53100'; END IF", submitters[9].req.AttemptID))
	submitTogether(t, b, db, submitters, blocked).running.Wait()
	for _, s := range submitters {
		if refusal, ok := errors.AsType[*pgconn.PgError](s.err); !ok || refusal.Code != "53100" {
			t.Errorf("a caller got %v", s.err)
		}
		s.untouched(t, db)
	}
	if got := batches.single.Load(); got != batchesInFlight {
		t.Errorf("%d calls ran alone, want %d", got, batchesInFlight)
	}
	testkit.Exec(t, db, "DROP TRIGGER at_commit ON attempts")
	for _, s := range submitters {
		s.submit(t.Context(), b.Service)
		s.check(t, db, false)
	}
}

// TestADeadlineThatWasChangedCounts changes a deadline after the pod has remembered it.
func TestADeadlineThatWasChangedCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	for _, c := range []struct {
		name, deadline string
		want           State
		late           bool
		refused        string
	}{
		{name: "none any more", deadline: "NULL", want: StateSubmitted},
		{name: "later", deadline: "expires_at + interval '1 hour'", want: StateSubmitted},
		{name: "passed", deadline: "opened_at - interval '1 hour'", want: StateExpired, late: true},
		{name: "passed yesterday", deadline: "opened_at - interval '25 hours'", refused: CodeAttemptClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened := b.open(t, who, "ann")
			testkit.Exec(t, b.pool, "UPDATE attempts SET expires_at = "+c.deadline+" WHERE id = $1", opened.AttemptID)
			result, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
			if c.refused != "" {
				wantCode(t, err, c.refused)
				return
			}
			check.NoError(t, err)
			if State(result.Feedback.Status) != c.want || result.Feedback.Late != c.late {
				t.Errorf("got %s, late %v", result.Feedback.Status, result.Feedback.Late)
			}
		})
	}
}

func TestAClosedServiceRefusesCallsAndEndsThoseThatRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := newOpeners(b, 3)
	pod := b.pod(t)
	testkit.Begin(t, b.admin(t), "LOCK TABLE attempt_counters IN SHARE MODE")
	var c crew
	c.start(func() { all[0].open(t.Context(), pod) })
	loaded(t, pod.writer.opens, 0, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c.start(func() { all[1].open(ctx, pod) })
	loaded(t, pod.writer.opens, 0, 2)
	cancel()
	testkit.Eventually(t, "the caller that leaves is answered", func() bool { return c.answered.Load() == 1 })
	mustAbandon(t, all[1].err, true)
	pod.Close()
	c.running.Wait()
	if !errors.Is(all[0].err, context.Canceled) {
		t.Errorf("a call that ran got %v", all[0].err)
	}
	all[2].open(t.Context(), pod)
	if _, ok := errors.AsType[*batch.ClosedError](all[2].err); !ok {
		t.Errorf("a call after the end got %v", all[2].err)
	}
}
