package attempts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// submitter is one caller of Submit. Its twin is an attempt of the same key and learner that was submitted alone, with the
// same sheet.
type submitter struct {
	who    keys.Identity
	req    SubmitRequest
	trace  string
	twin   Result
	twinID string

	cancel context.CancelFunc
	result Result
	err    error
}

func (s *submitter) submit(ctx context.Context, service *Service) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.result, s.err = service.Submit(ctx, s.who, s.req)
}

// refusedLetter is an answer to question 1:1 that a constraint refuses.
const refusedLetter = "C"

// newSubmitters returns callers of eight keys who opened an attempt each. Their sheets, states and scores differ.
func newSubmitters(t *testing.T, b *bench, n int) []*submitter {
	t.Helper()
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	people := make([]keys.Identity, 8)
	for i := range people {
		people[i] = b.someone(t)
	}
	submitters := make([]*submitter, n)
	for i := range submitters {
		s := &submitter{who: people[i%len(people)]}
		learner := []string{"", "ann", "bob"}[i%3]
		twin := b.open(t, s.who, learner)
		s.req = SubmitRequest{ExamKey: testExam, AttemptID: twin.AttemptID, LearnerID: learner, Answers: []marking.Answer{
			{Key: "1:1", Value: []string{"A", "B", ""}[i%3]},
			{Key: "2", Value: []string{"acd", "ac", "b", ""}[i/3%4]},
			{Key: "2:1", Value: fmt.Sprint(12.5 + float64(i/12%2))},
			{Key: "3", Value: fmt.Sprint("answer ", i)},
		}}
		s.req.Status = []State{StateSubmitted, StateSubmitted, StateExpired, StateSubmitted, StateAbandoned}[i%5]
		var err error
		s.twin, err = b.Submit(t.Context(), s.who, s.req)
		check.NoError(t, err)
		s.twinID, s.req.AttemptID = twin.AttemptID, b.open(t, s.who, learner).AttemptID
		submitters[i] = s
	}
	return submitters
}

// traced returns the context of a request whose trace is recorded, and makes the caller expect it.
func (s *submitter) traced(ctx context.Context, i int) context.Context {
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{byte(i + 1), 1}, SpanID: trace.SpanID{byte(i + 1)}, TraceFlags: trace.FlagsSampled,
	}))
	s.trace = postgres.Traceparent(ctx)
	return ctx
}

// storedEvent is an event of an attempt.
type storedEvent struct {
	Kind       string         `json:"kind"`
	Trace      string         `json:"trace"`
	Account    string         `json:"account"`
	Deliveries int            `json:"deliveries"`
	Data       map[string]any `json:"data"`
}

// events returns the events of an attempt, without its id.
func events(t *testing.T, db testkit.Session, attempt string) []storedEvent {
	t.Helper()
	var found []storedEvent
	var raw []byte
	testkit.ForEach(t, db, []any{&raw}, func() {
		var e storedEvent
		check.NoError(t, json.Unmarshal(raw, &e))
		found = append(found, e)
	}, `SELECT json_build_object('kind', e.kind, 'trace', e.traceparent, 'account', e.account_id,
			'deliveries', (SELECT count(*) FROM webhook_deliveries d WHERE d.event_id = e.id),
			'data', (convert_from(body, 'UTF8')::jsonb->'data') - 'attempt_id')
		FROM webhook_events e WHERE convert_from(body, 'UTF8')::jsonb->'data'->>'attempt_id' = $1 ORDER BY kind`, attempt)
	return found
}

// row returns what an attempt's row has of its submission.
func row(t *testing.T, db testkit.Session, attempt string) string {
	t.Helper()
	return testkit.Get[string](t, db, `SELECT (to_jsonb(a) - '{id,key_seq,learner_seq}'::text[])::text FROM attempts a WHERE id = $1`, attempt)
}

// checkWhole checks that an attempt has the same row and events as its twin, and that the events have the caller's trace.
func (s *submitter) checkWhole(t *testing.T, db testkit.Session) {
	t.Helper()
	if got, want := row(t, db, s.req.AttemptID), row(t, db, s.twinID); got != want {
		t.Errorf("the row is\n%s, want\n%s", got, want)
	}
	want := events(t, db, s.twinID)
	for i := range want {
		want[i].Trace = s.trace
	}
	if got := events(t, db, s.req.AttemptID); toJSON(t, got) != toJSON(t, want) {
		t.Errorf("the events are\n%s, want\n%s", toJSON(t, got), toJSON(t, want))
	}
}

// check checks the answer, too.
func (s *submitter) check(t *testing.T, db testkit.Session, repeated bool) {
	t.Helper()
	check.NoError(t, s.err)
	if got, want := toJSON(t, s.result.Feedback), toJSON(t, s.twin.Feedback); got != want || s.result.Repeated != repeated ||
		s.result.AttemptID != s.req.AttemptID {
		t.Errorf("feedback, repeated %v:\n%s, want\n%s", s.result.Repeated, got, want)
	}
	s.checkWhole(t, db)
}

// untouched checks that nothing was written about an attempt.
func (s *submitter) untouched(t *testing.T, db testkit.Session) {
	t.Helper()
	if open := testkit.Get[bool](t, db, "SELECT state = 'in_progress' AND answers IS NULL FROM attempts WHERE id = $1", s.req.AttemptID); !open {
		t.Error("the attempt is closed")
	}
	if found := events(t, db, s.req.AttemptID); found != nil {
		t.Errorf("events %s", toJSON(t, found))
	}
}

// TestSubmissionsInABatch holds the first commits until 64 calls wait, and then their batch. Two attempts are in it twice.
func TestSubmissionsInABatch(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("one refused: %v", refused), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			db := b.admin(t)
			const own = batchSize - 2 // callers with an attempt of their own
			all := newSubmitters(t, b, own+1+batchesInFlight)
			first, leaver, blocked := all[:own], all[own], all[own+1:]
			late := first[30]
			same, other := *first[5], *first[6]
			other.req.Answers = nil
			testkit.Exec(t, db, fmt.Sprintf("ALTER TABLE attempts ADD CHECK (answers->>'1:1' IS DISTINCT FROM '%s') NOT VALID", refusedLetter))
			if refused {
				first[17].req.Answers = []marking.Answer{{Key: "1:1", Value: refusedLetter}}
			}
			batches, reads := record(b.writer.closes), record(b.writer.finds)
			batch1 := testkit.Begin(t, db, fmt.Sprintf("SELECT FROM attempts WHERE id = '%s' FOR UPDATE", first[40].req.AttemptID))
			table := testkit.Begin(t, db, "LOCK TABLE attempts IN SHARE MODE")

			var c crew
			occupy(t, b.writer.closes, &c, func(i int) { blocked[i].submit(t.Context(), b.Service) })
			for i, s := range slices.Concat(first, []*submitter{leaver}) {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = s.traced(ctx, i)
				}
				c.start(func() { s.submit(ctx, b.Service) })
			}
			loaded(t, b.writer.closes, own+1, batchesInFlight)
			leaver.cancel()
			for _, s := range []*submitter{&same, &other} {
				c.start(func() { s.submit(t.Context(), b.Service) })
			}
			loaded(t, b.writer.closes, batchSize, batchesInFlight)
			if reads.single.Load()+int64(len(reads.sizes())) > 0 {
				t.Error("a submission read an attempt that its pod opened")
			}
			testkit.Release(t, table)
			loaded(t, b.writer.closes, 0, 1)
			late.cancel()
			testkit.Eventually(t, "two callers have left, and four are answered", func() bool { return c.answered.Load() == batchesInFlight+2 })
			notified := b.notified.Load()
			testkit.Release(t, batch1)
			c.running.Wait()

			mustAbandon(t, leaver.err, false)
			mustAbandon(t, late.err, true)
			leaver.untouched(t, db)
			late.checkWhole(t, db)
			for i, s := range slices.Concat(blocked, first) {
				switch {
				case s == late:
				case refused && s == first[17]:
					mustViolate(t, s.err)
					s.untouched(t, db)
				default:
					s.check(t, db, false)
				}
				if t.Failed() {
					t.Fatalf("caller %d", i)
				}
			}
			same.trace = first[5].trace
			same.check(t, db, true)
			wantCode(t, other.err, CodeAlreadySubmitted)
			if got := batches.sizes(); !slices.Equal(got, []int{batchSize}) {
				t.Errorf("batches of %v calls", got)
			}
			if got := b.notified.Load() - notified; got != 1 {
				t.Errorf("the batch notified %d times", got)
			}
			for _, s := range []*submitter{late, leaver} { // a client that got no answer tries again
				s.err, s.trace = nil, map[bool]string{true: late.trace}[s == late]
				s.submit(t.Context(), b.Service)
				s.check(t, db, s == late)
			}
		})
	}
}

// TestReadsInABatchReturnEachCallersAttempt submits at a pod that opened none of the attempts. The callers are in one batch with
// strangers that name the same attempts.
func TestReadsInABatchReturnEachCallersAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db := b.admin(t)
	all := newSubmitters(t, b, batchSize/2+batchesInFlight)
	owners, blocked := all[:batchSize/2], all[batchSize/2:]
	pod := b.pod(t)
	reads := record(pod.writer.finds)
	table := testkit.Begin(t, db, "LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE")
	var c crew
	occupy(t, pod.writer.finds, &c, func(i int) { blocked[i].submit(t.Context(), pod) })
	strangers := make([]submitter, len(owners))
	for i, s := range owners {
		stranger := &strangers[i]
		*stranger = *s
		switch i % 3 {
		case 0:
			stranger.who = all[i+1].who
		case 1:
			stranger.req.LearnerID = "somebody else"
		default:
			stranger.req.ExamKey = otherExam
		}
		c.start(func() { stranger.submit(t.Context(), pod) })
		c.start(func() { s.submit(t.Context(), pod) })
	}
	loaded(t, pod.writer.finds, batchSize, batchesInFlight)
	testkit.Release(t, table)
	c.running.Wait()
	for _, s := range all {
		s.check(t, db, false)
	}
	for i := range strangers {
		wantCode(t, strangers[i].err, CodeAttemptNotFound)
	}
	if got := reads.sizes(); !slices.Equal(got, []int{batchSize}) {
		t.Errorf("batches of %v calls", got)
	}
}
