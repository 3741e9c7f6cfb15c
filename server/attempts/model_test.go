package attempts

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// The model is docs/spec.md, part 3, in its shortest form: slices of who opened what and when, the first submission, and
// what follows from the clock. Random histories of every operation are played against it and against the engine on
// Postgres; each answer must agree, to the last field of the feedback. It shares no code with the engine: what an answer
// means is known from how it was made up (model_answers_test.go), what it earns is counted in rationals
// (model_feedback_test.go).
//
// A history has key families, accounts and papers of its own and begins long before the one that was played before it.
// So nothing is ever deleted, and a sweep finds nothing of the others.

// modelAttempt is an attempt as the model knows it.
type modelAttempt struct {
	id       string
	family   uuid.UUID
	exam     string
	paper    string
	learner  string
	edition  *edition
	opened   time.Time
	deadline *time.Time
	state    State
	swept    bool
	first    *modelSubmission
}

// modelSubmission is what was accepted, with the feedback that was given, byte by byte.
type modelSubmission struct {
	status   State
	answers  []string
	at       time.Time
	account  uuid.UUID
	feedback string
	// score is nil when the attempt was abandoned, or the paper has essays only.
	score *marking.Percentage
}

// world is one history: the system under test with its model. Each call goes to one of the pods.
type world struct {
	*bench
	*coverage
	pods     []*Service
	people   []keys.Identity
	attempts []*modelAttempt
}

// The model's own copies of the time limits (docs/spec.md, part 3).
const (
	modelGrace  = time.Minute
	modelWindow = 24 * time.Hour
)

const (
	// modelWorkers play at once, each on a database of its own.
	modelWorkers = 4
	// longestStep is the longest that one step of a history lets pass: from an opening to the end of the late window.
	longestStep = modelWindow + minutes*time.Minute + time.Second
	maxSteps    = 40
)

var (
	modelExams  = []string{testExam, otherExam}
	modelPapers = []string{"paper-one", "paper-two"} // the same ids in both exams
	learners    = []string{"", "", "ann", "bob"}
)

// TestRandomHistoriesAgreeWithTheModel plays -rapid.checks histories in each of its workers (make soak: 10⁵ in all).
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	whole := !sampleHistories(t)
	seen := &coverage{counts: map[string]int{}}
	t.Run("histories", func(t *testing.T) {
		for worker := range modelWorkers {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				playHistories(t, seen)
			})
		}
	})
	t.Logf("%d histories: %s", seen.counts["history"], seen)
	const enough = 300 // to meet the rarest transition almost surely

	if flag.Lookup("rapid.failfile").Value.String() != "" { // one history is played again
		return
	}
	played := seen.counts["history"]
	if whole && played < enough {
		t.Errorf("%d histories were played, want at least %d", played, enough)
	}
	if missing := seen.missing(); len(missing) > 0 && played >= enough {
		t.Errorf("never exercised: %q", missing)
	}
}

// sampleHistories reduces the histories of each worker to 25 under the race detector and -short, unless -rapid.checks is
// given. It reports whether the test plays another number than the default. `make test` plays the default without the detector.
func sampleHistories(t *testing.T) (other bool) {
	t.Helper()
	const name = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given || !race.Enabled && !testing.Short() {
		return given
	}
	before := flag.Lookup(name).Value.String()
	set := func(value string) {
		check.NoError(t, flag.Set(name, value))
	}
	set("25")
	t.Cleanup(func() { set(before) })
	return true
}

func playHistories(t *testing.T, seen *coverage) {
	t.Helper()
	b := newBench(t)
	pods := []*Service{b.Service, b.pod(t)}
	testkit.Exec(t, b.pool, "CREATE INDEX ON webhook_events (account_id)") // for tellsOfEachSubmissionOnce
	begin := time.Date(8000, 1, 1, 0, 0, 0, 123_456_000, time.UTC)         // as late as JSON allows, and some time for all histories before it
	rapid.Check(t, func(t *rapid.T) {
		begin = begin.Add(-(maxSteps + 1) * longestStep)
		b.setClock(begin)
		b.shelf.restock(modelExams...)
		w := &world{bench: b, coverage: seen, pods: pods}
		for range 2 {
			w.people = append(w.people, keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()})
		}
		// The third is the first one's rotated key.
		w.people = append(w.people, keys.Identity{KeyID: uuid.New(), FamilyID: w.people[0].FamilyID, AccountID: w.people[0].AccountID})
		w.publishes(t, otherExam, modelPapers[0])
		for _, paper := range modelPapers {
			w.publishes(t, testExam, paper)
		}
		for range rapid.IntRange(20, maxSteps).Draw(t, "steps") {
			rapid.SampledFrom(modelSteps).Draw(t, "step").play(w, t)
		}
		w.tellsOfEachSubmissionOnce(t)
		for _, who := range w.people[:2] {
			w.lists(t, who, testExam, "", 50, 0)
		}
		w.saw("history")
	})
}

// A modelStep is something that may happen.
type modelStep struct {
	name string
	play func(*world, *rapid.T)
}

func (s modelStep) String() string { return s.name }

// modelSteps are the steps, each as often as it is to be likely.
var modelSteps = slices.Concat(
	slices.Repeat([]modelStep{{"open", (*world).opens}, {"submit", (*world).submits}, {"wait", (*world).waits}}, 4),
	slices.Repeat([]modelStep{{"retry", (*world).retries}, {"page", (*world).pages}}, 2),
	[]modelStep{{"open at once", (*world).opensAtOnce}, {"submit at once", (*world).submitsAtOnce}},
	[]modelStep{{"republish", (*world).republishes}, {"sweep", (*world).sweeps}, {"history", (*world).readsHistory}, {"withdraw", (*world).withdraws}},
)

// coverage counts which transitions were exercised.
type coverage struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *coverage) saw(transition string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[transition]++
}

// sawIf counts what holds.
func (c *coverage) sawIf(holds bool, transition string) {
	if holds {
		c.saw(transition)
	}
}

// transitions is everything that the histories must exercise.
var transitions = []string{
	"open: with a limit", "open: without a limit", "open: with a learner", "open: without a learner",
	"open: paper_not_found", "open: exam_not_found", "open: beside an open attempt", "open: at once", "submit: at once",
	"page: the published revision", "page: an attempt's older revision", "page: in hand although withdrawn",
	"page: paper_not_found", "page: exam_not_found",
	"submit: in_progress → submitted", "submit: in_progress → expired", "submit: in_progress → abandoned",
	"submit: late", "submit: late with status expired", "submit: late but abandoned", "submit: within the grace",
	"submit: at the deadline", "submit: at the end of the grace", "submit: a moment after the grace",
	"submit: at the last moment", "submit: a moment too late", "submit: attempt_closed before the sweep",
	"submit: attempt_closed after the sweep", "submit: by a rotated key", "submit: after a republication",
	"submit: after a withdrawal", "submit: without a limit", "submit: without answers",
	"submit: a plain number", "submit: a blank answer", "submit: essays only",
	"submit: another key", "submit: another learner", "submit: another exam", "submit: another exam, withdrawn",
	"again: repeated", "again: repeated after the window", "again: repeated after a republication",
	"again: abandoned repeated", "again: other answers", "again: another status", "again: bad answers",
	"bad: unknown_answer_id", "bad: invalid_option", "bad: ambiguous_answer_key", "bad: duplicate_answer_key",
	"sweep: closes", "sweep: closes nothing", "wait",
	"history: of a key", "history: of a learner", "history: behind the end", "history: empty", "history: exam_not_found",
	"history: expired before the sweep", "history: of a withdrawn exam",
	"history: of a withdrawn exam, for another learner",
	"republish", "withdraw: a paper", "withdraw: an exam",
	"feedback: passed", "feedback: failed", "feedback: scaled", "feedback: below the conversion", "feedback: partial credit",
	"feedback: below zero",
}

func (c *coverage) missing() []string {
	return slices.DeleteFunc(slices.Clone(transitions), func(name string) bool { return c.counts[name] > 0 })
}

// String lists the counts, the rarest first.
func (c *coverage) String() string {
	names := slices.SortedFunc(maps.Keys(c.counts), func(a, b string) int { return cmp.Compare(c.counts[a], c.counts[b]) })
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("\n%9d %s", c.counts[name], name)
	}
	return text
}

// seldom is true once in a while. It is no bare comparison with 0, for rapid prefers small numbers.
func seldom(t *rapid.T, what string) bool { return rapid.IntRange(0, 5).Draw(t, what) == 5 }

func (w *world) somebody(t *rapid.T) keys.Identity { return rapid.SampledFrom(w.people).Draw(t, "key") }

func (*world) anExam(t *rapid.T) string { return rapid.SampledFrom(modelExams).Draw(t, "exam") }

func (*world) aPaper(t *rapid.T) string { return rapid.SampledFrom(modelPapers).Draw(t, "paper") }

func (*world) aLearner(t *rapid.T) string { return rapid.SampledFrom(learners).Draw(t, "learner") }

// someSheet is mostly the owner, exam, paper and learner of an attempt that was opened; else anything.
func (w *world) someSheet(t *rapid.T) (who keys.Identity, exam, paper, learner string) {
	if len(w.attempts) > 0 && !seldom(t, "anything") {
		a := rapid.SampledFrom(w.attempts).Draw(t, "attempt")
		by := w.owner(t, a)
		return by.who, a.exam, a.paper, a.learner
	}
	return w.somebody(t), w.anExam(t), w.aPaper(t), w.aLearner(t)
}

func (w *world) republishes(t *rapid.T) {
	_, exam, paper, _ := w.someSheet(t)
	w.publishes(t, exam, paper)
	w.saw("republish")
}

func (w *world) publishes(t *rapid.T, exam, paper string) {
	limit := rapid.SampledFrom([]int{0, 30, minutes, minutes}).Draw(t, "minutes")
	w.shelf.publish(exam, paper, limit, drawRevision(t))
}

func (w *world) withdraws(t *rapid.T) {
	_, exam, paper, _ := w.someSheet(t)
	if rapid.Bool().Draw(t, "whole") {
		paper = ""
	}
	w.shelf.withdraw(exam, paper)
	w.sawIf(paper == "", "withdraw: an exam")
	w.sawIf(paper != "", "withdraw: a paper")
}

// isServed reports whether an exam is published.
func (w *world) isServed(exam string) bool { return !w.shelf.hidden[[2]string{exam}] }

// published returns the published edition, or the code of why there is none.
func (w *world) published(exam, paper string) (*edition, string) {
	editions := w.shelf.exams[exam][paper]
	switch {
	case !w.isServed(exam):
		return nil, CodeExamNotFound
	case len(editions) == 0 || w.shelf.hidden[[2]string{exam, paper}]:
		return nil, CodePaperNotFound
	default:
		return editions[len(editions)-1], ""
	}
}

func (w *world) opens(t *rapid.T) {
	o := w.drawOpen(t)
	o.send(t)
	w.opened(t, o)
}

// opened checks the answer to an open.
func (w *world) opened(t *rapid.T, o *modelOpen) {
	who, exam, paper, learner, got := o.who, o.req.ExamKey, o.req.PaperID, o.req.LearnerID, o.got
	current, refused := w.published(exam, paper)
	if refused != "" {
		mustRefuse(t, o.err, refused)
		w.saw("open: " + refused)
		return
	}
	check.NoError(t, o.err)
	made := &modelAttempt{
		id: got.AttemptID, family: who.FamilyID, exam: exam, paper: paper, learner: learner, edition: current,
		opened: w.now(), state: StateInProgress,
	}
	if minutes := current.revision.DurationMinutes; minutes > 0 {
		deadline := made.opened.Add(time.Duration(minutes) * time.Minute)
		made.deadline = &deadline
	}
	questions := current.revision.Questions
	if got.State != StateInProgress || !got.OpenedAt.Equal(made.opened) || unix(got.ExpiresAt) != unix(made.deadline) ||
		got.PaperID != paper || got.QuestionCount != len(questions) || !sameQuestions(got.Questions, questions, o.req.Offset, o.req.Limit) {
		t.Fatalf("opened %+v, want %+v", got, made)
	}
	w.sawIf(made.deadline != nil, "open: with a limit")
	w.sawIf(made.deadline == nil, "open: without a limit")
	w.sawIf(learner != "", "open: with a learner")
	w.sawIf(learner == "", "open: without a learner")
	w.sawIf(len(w.inHand(who, exam, paper, learner)) > 0, "open: beside an open attempt")
	w.attempts = append(w.attempts, made)
}

// sameQuestions reports whether got is the page of all that begins at offset.
func sameQuestions(got, all [][]byte, offset, limit int) bool {
	for i, question := range all {
		if i < offset || i >= offset+limit {
			continue
		}
		if len(got) == 0 || !bytes.Equal(got[0], question) {
			return false
		}
		got = got[1:]
	}
	return len(got) == 0
}

// over reports whether the model's attempt has passed its deadline by more than d.
func (m *modelAttempt) over(now time.Time, d time.Duration) bool {
	return m.deadline != nil && now.Sub(*m.deadline) > d
}

// inHand returns the editions of the newest attempt in progress; several may have been opened in the same instant.
func (w *world) inHand(who keys.Identity, exam, paper, learner string) (sitting []*edition) {
	var newest time.Time
	for _, a := range w.attempts {
		if a.family != who.FamilyID || a.exam != exam || a.paper != paper || a.learner != learner ||
			a.state != StateInProgress || a.over(w.now(), modelWindow) {
			continue
		}
		if a.opened.After(newest) {
			newest, sitting = a.opened, nil
		}
		sitting = append(sitting, a.edition)
	}
	return sitting
}

func (w *world) pages(t *rapid.T) {
	who, exam, paper, learner := w.someSheet(t)
	offset, limit := rapid.IntRange(0, 7).Draw(t, "offset"), rapid.IntRange(1, 20).Draw(t, "limit")
	got, err := w.Page(t.Context(), who, PageRequest{ExamKey: exam, PaperID: paper, Offset: offset, Limit: limit, LearnerID: learner})
	current, refused := w.published(exam, paper)
	sitting := w.inHand(who, exam, paper, learner)
	if len(sitting) == 0 && refused != "" {
		mustRefuse(t, err, refused)
		w.saw("page: " + refused)
		return
	}
	check.NoError(t, err)
	w.sawIf(len(sitting) == 0, "page: the published revision")
	w.sawIf(refused != "", "page: in hand although withdrawn")
	if len(sitting) == 0 {
		sitting = []*edition{current}
	}
	for _, candidate := range sitting {
		questions := candidate.revision.Questions
		if got.Total == len(questions) && sameQuestions(got.Questions, questions, offset, limit) {
			w.sawIf(current != nil && candidate != current, "page: an attempt's older revision")
			return
		}
	}
	t.Fatalf("page of %d of %d questions, want one of %d revisions", len(got.Questions), got.Total, len(sitting))
}

// waits lets some time pass, or turns the clock to a moment when something changes for an attempt, or just after.
func (w *world) waits(t *rapid.T) {
	w.saw("wait")
	wait := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 10 * time.Minute, modelWindow}).Draw(t, "wait")
	if len(w.attempts) > 0 && !seldom(t, "no boundary") {
		a := rapid.SampledFrom(w.attempts).Draw(t, "attempt")
		if a.deadline != nil {
			to := a.deadline.Add(rapid.SampledFrom([]time.Duration{0, modelGrace, modelWindow}).Draw(t, "boundary"))
			if rapid.Bool().Draw(t, "after") {
				to = to.Add(time.Microsecond)
			}
			wait = max(0, to.Sub(w.now()))
		}
	}
	w.advance(wait)
}

func (w *world) sweeps(t *rapid.T) {
	want := 0
	for _, a := range w.attempts {
		if a.state == StateInProgress && a.over(w.now(), modelWindow) {
			a.state, a.swept = StateExpired, true
			want++
		}
	}
	if got, err := w.Sweep(t.Context()); err != nil || got != want {
		t.Fatalf("the sweep closed %d, %v, want %d", got, err, want)
	}
	w.sawIf(want > 0, "sweep: closes")
	w.sawIf(want == 0, "sweep: closes nothing")
}

// now reads the clock that the engine reads.
func (w *world) now() time.Time { return *w.time.Load() }
