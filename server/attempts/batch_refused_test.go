package attempts

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// refusals are SQLSTATEs that one row of a batch can cause: damaged storage, a trigger, and the limits on times.
var refusals = []string{"XX001", "P0001", "55P03", "57014"}

func mustRefuseWith(t *testing.T, err error, state string) {
	t.Helper()
	if refusal, ok := errors.AsType[*pgconn.PgError](err); !ok || refusal.Code != state {
		t.Errorf("the refused caller got %v, want SQLSTATE %s", err, state)
	}
}

// newBatch returns eight callers of one batch, and those whose calls keep the batches before it busy.
func newBatch(t *testing.T) (b *bench, db *pgxpool.Pool, together, blocked []*submitter) {
	t.Helper()
	b = newBench(t)
	db = b.admin(t)
	all := newSubmitters(t, b, 8+batchesInFlight)
	return b, db, all[:8], all[8:]
}

// TestARefusedSubmissionFailsAlone has PostgreSQL refuse one row of a batch.
func TestARefusedSubmissionFailsAlone(t *testing.T) {
	t.Parallel()
	for _, state := range refusals {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b, db, submitters, blocked := newBatch(t)
			batches := record(b.writer.closes)
			testkit.Exec(t, db, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN RAISE 'refused' USING ERRCODE = '%s'; END $$`, state))
			testkit.Exec(t, db, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON attempts FOR EACH ROW
				WHEN (NEW.id = '%s') EXECUTE FUNCTION refuse()`, submitters[5].req.AttemptID))
			submitTogether(t, b, db, submitters, blocked).running.Wait()
			for i, s := range submitters {
				if i == 5 {
					mustRefuseWith(t, s.err, state)
					s.untouched(t, db)
					continue
				}
				s.check(t, db, false)
			}
			if got := batches.sizes(); !slices.Equal(got, []int{8}) {
				t.Errorf("batches of %v calls", got)
			}
		})
	}
}

// TestAnAttemptThatCannotBeReadFailsAlone has a row of a batch of reads that PostgreSQL cannot read. A view with the table's name,
// before it in the path of the pool, stands for the damaged row.
func TestAnAttemptThatCannotBeReadFailsAlone(t *testing.T) {
	t.Parallel()
	for _, state := range refusals {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b, db, readers, blocked := newBatch(t)
			testkit.Exec(t, db, fmt.Sprintf(`CREATE FUNCTION clock.damaged() RETURNS bytea VOLATILE LANGUAGE plpgsql AS $$
				BEGIN RAISE 'refused' USING ERRCODE = '%s'; END $$`, state))
			testkit.Exec(t, db, fmt.Sprintf(`CREATE VIEW clock.attempts AS SELECT id, family_id, exam_key, learner, paper_id,
				CASE WHEN id = '%s' THEN clock.damaged() ELSE paper_digest END AS paper_digest, state, scoring_status, question_count,
				opened_at, expires_at, submitted_at, late, overtime_sec, score_hundredths, submission_digest
				FROM public.attempts`, readers[5].req.AttemptID))
			pod := b.pod(t) // it remembers none of the attempts
			table := testkit.Begin(t, db, "LOCK TABLE public.attempts")
			var c crew
			find := func(s *submitter) {
				_, s.err = pod.find(t.Context(), s.who, s.req.ExamKey, s.req.AttemptID, s.req.LearnerID)
			}
			occupy(t, pod.writer.finds, &c, func(i int) { find(blocked[i]) })
			for _, s := range readers {
				c.start(func() { find(s) })
			}
			loaded(t, pod.writer.finds, len(readers), batchesInFlight)
			testkit.Release(t, table)
			c.running.Wait()
			for i, s := range readers {
				if i == 5 {
					mustRefuseWith(t, s.err, state)
					continue
				}
				check.NoError(t, s.err)
			}
		})
	}
}
