package attempts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/batch"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// opener is one caller of Open. Its key has no other call, so its row can be found.
type opener struct {
	who    keys.Identity
	req    OpenRequest
	cancel context.CancelFunc
	opened Opened
	err    error
}

func (o *opener) open(ctx context.Context, service *Service) {
	ctx, o.cancel = context.WithCancel(ctx)
	o.opened, o.err = service.Open(ctx, o.who, o.req)
}

// refusedPaper is a paper whose attempts a constraint refuses.
const refusedPaper = "refused-paper"

// newOpeners returns callers of eight families, who differ in exam, paper and learner.
func newOpeners(b *bench, n int) []*opener {
	exams, papers := []string{testExam, otherExam, testExam}, []string{"paper-0", "paper-1", "paper-2", "paper-3", "paper-4"}
	for _, exam := range exams[:2] {
		for i, paper := range papers {
			key := markingtest.EveryKind()
			key.Keys = key.Keys[:1+i]
			b.shelf.publish(exam, paper, i*minutes, key) // the first has no limit
		}
	}
	b.shelf.publish(testExam, refusedPaper, minutes, markingtest.EveryKind())
	families := make([]keys.Identity, 8)
	for i := range families {
		families[i] = keys.Identity{FamilyID: uuid.New(), AccountID: uuid.New()}
	}
	openers := make([]*opener, n)
	for i := range openers {
		who := families[i%len(families)]
		who.KeyID = uuid.New()
		openers[i] = &opener{who: who, req: OpenRequest{
			ExamKey: exams[i%len(exams)], PaperID: papers[i%len(papers)], Limit: 1 + i%3, Offset: i % 2, LearnerID: []string{"", "ann", "bob", "cyd"}[i/8%4],
		}}
	}
	return openers
}

// check checks the answer of a caller against its row and its paper.
func (o *opener) check(t *testing.T, b *bench, db *pgxpool.Pool) {
	t.Helper()
	check.NoError(t, o.err)
	paper, err := b.shelf.Paper(t.Context(), o.req.ExamKey, o.req.PaperID)
	check.NoError(t, err)
	want := Opened{
		AttemptID: o.opened.AttemptID, PaperID: o.req.PaperID, QuestionCount: len(paper.Questions),
		Questions: page(paper.Questions, o.req.Offset, o.req.Limit), State: StateInProgress, OpenedAt: b.clock(),
	}
	if paper.DurationMinutes > 0 {
		deadline := want.OpenedAt.Add(time.Duration(paper.DurationMinutes) * time.Minute)
		want.ExpiresAt = &deadline
	}
	if got := o.opened; toJSON(t, got) != toJSON(t, want) || !slices.EqualFunc(got.Questions, want.Questions, bytes.Equal) {
		t.Errorf("opened %+v, want %+v", got, want)
	}
	var id, account, family uuid.UUID
	var exam, paperID, state string
	var digest, learner []byte
	var count int
	var openedAt time.Time
	var expiresAt *time.Time
	rows := 0
	testkit.ForEach(t, db, []any{&id, &account, &family, &exam, &paperID, &state, &digest, &learner, &count, &openedAt, &expiresAt}, func() { rows++ },
		`SELECT id, account_id, family_id, exam_key, paper_id, state, paper_digest, learner, question_count, opened_at, expires_at
		FROM attempts WHERE key_id = $1`, o.who.KeyID)
	if rows != 1 || id.String() != o.opened.AttemptID || account != o.who.AccountID || family != o.who.FamilyID || exam != o.req.ExamKey ||
		paperID != o.req.PaperID || state != string(StateInProgress) || catalog.Digest(digest) != paper.Digest ||
		!slices.Equal(learner, b.learner(o.who, o.req.LearnerID)) || count != len(paper.Questions) ||
		!openedAt.Equal(want.OpenedAt) || unix(expiresAt) != unix(want.ExpiresAt) {
		t.Errorf("%d rows; %s of %+v is %s, %s, %s, %d questions, until %v", rows, id, o.req, exam, paperID, state, count, expiresAt)
	}
}

// TestOpensInABatch holds the first commits until 64 calls wait, and then their batch.
func TestOpensInABatch(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("one refused: %v", refused), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			db := b.admin(t)
			testkit.Exec(t, db, fmt.Sprintf("ALTER TABLE attempts ADD CHECK (paper_id <> '%s')", refusedPaper))
			batches := record(b.writer.opens)
			openers := newOpeners(b, batchSize+1)
			leaver, late := openers[batchSize], openers[23]
			first, blocked := openers[:batchSize], newOpeners(b, batchesInFlight)
			if refused {
				first[16].req.ExamKey, first[16].req.PaperID = testExam, refusedPaper
			}
			blocked[0].who.FamilyID = first[0].who.FamilyID
			blocked[0].open(t.Context(), b.Service) // makes the counter that holds the batch
			check.NoError(t, blocked[0].err)
			batch1 := testkit.Begin(t, db, fmt.Sprintf("SELECT FROM attempt_counters WHERE family_id = '%s' FOR UPDATE", first[0].who.FamilyID))
			all := testkit.Begin(t, db, "LOCK TABLE attempt_counters IN SHARE MODE")

			var c crew
			for _, o := range blocked {
				o.who = keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
			}
			occupy(t, b.writer.opens, &c, func(i int) { blocked[i].open(t.Context(), b.Service) })
			for _, o := range openers {
				c.start(func() { o.open(t.Context(), b.Service) })
			}
			loaded(t, b.writer.opens, batchSize+1, batchesInFlight)
			leaver.cancel()
			loaded(t, b.writer.opens, batchSize, batchesInFlight)
			testkit.Release(t, all)
			loaded(t, b.writer.opens, 0, 1)
			late.cancel()
			testkit.Eventually(t, "two callers have left, and four are answered", func() bool { return c.answered.Load() == batchesInFlight+2 })
			testkit.Release(t, batch1)
			c.running.Wait()

			mustAbandon(t, leaver.err, false)
			mustAbandon(t, late.err, true)
			for i, o := range slices.Concat(blocked, first) {
				switch {
				case o == late:
				case refused && o == first[16]:
					mustViolate(t, o.err)
				default:
					o.check(t, b, db)
				}
				if t.Failed() {
					t.Fatalf("caller %d", i)
				}
			}
			for o, want := range map[*opener]int64{leaver: 0, late: 1} {
				if got := testkit.Get[int64](t, db, "SELECT count(*) FROM attempts WHERE key_id = $1", o.who.KeyID); got != want {
					t.Errorf("a caller that left has %d attempts, want %d", got, want)
				}
			}
			if got := batches.sizes(); !slices.Equal(got, []int{batchSize}) {
				t.Fatalf("batches of %v calls", got)
			}
			checkCounters(t, db)
		})
	}
}

func mustAbandon(t *testing.T, err error, running bool) {
	t.Helper()
	abandoned, ok := errors.AsType[*batch.AbandonedError](err)
	if !ok || abandoned.Running != running || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left got %v, want running %v", err, running)
	}
}

func mustViolate(t *testing.T, err error) {
	t.Helper()
	if refusal, ok := errors.AsType[*pgconn.PgError](err); !ok || refusal.Code != "23514" {
		t.Errorf("a caller with a refused row got %v", err)
	}
}
