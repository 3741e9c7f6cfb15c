package attempts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
)

// The model is DESIGN §6 in its shortest form, kept in maps: who opened what and when, what was first submitted, and
// what follows from the clock. Random histories of every operation are played against it and against the engine on
// Postgres; each answer must agree.

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

// modelSubmission is what was accepted, with the feedback that was given.
type modelSubmission struct {
	status   State
	answers  []string
	at       time.Time
	feedback string
}

// world is the system under test with its model.
type world struct {
	*bench
	families []keys.Identity
	attempts []*modelAttempt
	scored   map[uuid.UUID]int // accounts → scored submissions
}

// The model's own copies of DESIGN's numbers.
const (
	modelGrace  = time.Minute
	modelWindow = 24 * time.Hour
)

var (
	modelExams  = []string{testExam, otherExam}
	modelPapers = []string{"paper-one", "paper-two"} // the same ids in both exams
	learners    = []string{"", "ann", "bob"}
)

func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	b := newBench(t)
	var people []keys.Identity
	for range 2 {
		people = append(people, b.someone(t))
	}
	// A third identity is the first one's rotated key.
	people = append(people, keys.Identity{KeyID: uuid.New(), FamilyID: people[0].FamilyID, AccountID: people[0].AccountID})
	rapid.Check(t, func(t *rapid.T) {
		if _, err := b.pool.Exec(t.Context(),
			"DELETE FROM attempts; DELETE FROM attempt_counters; DELETE FROM webhook_events; DELETE FROM webhook_deliveries"); err != nil {
			t.Fatal(err)
		}
		w := &world{bench: b, families: people, scored: map[uuid.UUID]int{}}
		w.shelf.mu.Lock()
		w.shelf.exams, w.shelf.hidden = newShelf(modelExams...).exams, map[string]bool{}
		w.shelf.mu.Unlock()
		for _, exam := range modelExams {
			w.republish(t, exam, modelPapers[0])
		}
		t.Repeat(map[string]func(*rapid.T){
			"open":      w.opens,
			"page":      w.pages,
			"submit":    w.submits,
			"retry":     w.retries,
			"wait":      w.waits,
			"republish": func(t *rapid.T) { w.republish(t, w.anExam(t), rapid.SampledFrom(modelPapers).Draw(t, "paper")) },
			"withdraw":  func(t *rapid.T) { w.shelf.withdraw(rapid.SampledFrom(modelPapers).Draw(t, "paper")) },
			"sweep":     w.sweeps,
			"history":   w.readsHistory,
			"":          w.tellsOfEachSubmissionOnce,
		})
	})
}

func (w *world) somebody(t *rapid.T) keys.Identity {
	return rapid.SampledFrom(w.families).Draw(t, "key")
}
func (*world) anExam(t *rapid.T) string   { return rapid.SampledFrom(modelExams).Draw(t, "exam") }
func (*world) aLearner(t *rapid.T) string { return rapid.SampledFrom(learners).Draw(t, "learner") }

func (w *world) republish(t *rapid.T, exam, paper string) {
	limit := rapid.SampledFrom([]int{0, 30, minutes}).Draw(t, "minutes")
	key := everyKind()
	key.Marking.Correct = float64(rapid.IntRange(1, 4).Draw(t, "correct"))
	key.Keys = key.Keys[:rapid.IntRange(1, len(key.Keys)).Draw(t, "questions")]
	key.Keys[0].Answer.Choices = []string{rapid.SampledFrom(abcd).Draw(t, "right")}
	w.shelf.publish(exam, paper, limit, key)
}

// published returns the published edition, or the code of why there is none.
func (w *world) published(exam, paper string) (*edition, string) {
	editions := w.shelf.exams[exam][paper]
	if len(editions) == 0 || w.shelf.hidden[paper] {
		return nil, CodePaperNotFound
	}
	return editions[len(editions)-1], ""
}

func (w *world) opens(t *rapid.T) {
	who, exam, paper, learner := w.somebody(t), w.anExam(t), rapid.SampledFrom(modelPapers).Draw(t, "paper"), w.aLearner(t)
	got, err := w.Open(t.Context(), who, OpenRequest{ExamKey: exam, PaperID: paper, Limit: 3, LearnerID: learner})
	current, refused := w.published(exam, paper)
	if refused != "" {
		mustRefuse(t, err, refused)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	made := &modelAttempt{
		id: got.AttemptID, family: who.FamilyID, exam: exam, paper: paper, learner: learner, edition: current,
		opened: w.clock(), state: StateInProgress,
	}
	if limit := current.revision.DurationMinutes; limit > 0 {
		deadline := made.opened.Add(time.Duration(limit) * time.Minute)
		made.deadline = &deadline
	}
	if !got.OpenedAt.Equal(made.opened) || (got.ExpiresAt == nil) != (made.deadline == nil) ||
		got.QuestionCount != len(current.revision.Questions) {
		t.Fatalf("opened %+v, want %+v", got, made)
	}
	w.attempts = append(w.attempts, made)
}

// over reports whether the model's attempt has passed its deadline by more than d.
func (m *modelAttempt) over(now time.Time, d time.Duration) bool {
	return m.deadline != nil && now.Sub(*m.deadline) > d
}

func (w *world) pages(t *rapid.T) {
	who, exam, paper, learner := w.somebody(t), w.anExam(t), rapid.SampledFrom(modelPapers).Draw(t, "paper"), w.aLearner(t)
	got, err := w.Page(t.Context(), who, PageRequest{ExamKey: exam, PaperID: paper, Limit: 20, LearnerID: learner})
	want, refused := w.published(exam, paper)
	newest := time.Time{}
	var sitting []*edition // several may have been opened in the same instant
	for _, a := range w.attempts {
		if a.family == who.FamilyID && a.exam == exam && a.paper == paper && a.learner == learner &&
			a.state == StateInProgress && !a.over(w.clock(), modelWindow) {
			if a.opened.After(newest) {
				newest, sitting = a.opened, nil
			}
			sitting = append(sitting, a.edition)
		}
	}
	if len(sitting) == 0 && refused != "" {
		mustRefuse(t, err, refused)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(sitting) == 0 {
		sitting = []*edition{want}
	}
	for _, candidate := range sitting {
		if got.Total == len(candidate.revision.Questions) &&
			slices.EqualFunc(got.Questions, candidate.revision.Questions, slices.Equal) {
			return
		}
	}
	t.Fatalf("page of %d questions, want one of %d revisions", got.Total, len(sitting))
}

// waits lets some time pass, or turns the clock to a moment when something changes for an attempt, or just after.
func (w *world) waits(t *rapid.T) {
	if len(w.attempts) > 0 && rapid.Bool().Draw(t, "to a boundary") {
		a := rapid.SampledFrom(w.attempts).Draw(t, "attempt")
		if a.deadline != nil {
			to := a.deadline.Add(rapid.SampledFrom([]time.Duration{0, modelGrace, modelWindow}).Draw(t, "boundary"))
			if rapid.Bool().Draw(t, "after") {
				to = to.Add(time.Microsecond)
			}
			w.advance(max(0, to.Sub(w.clock())))
			return
		}
	}
	w.advance(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, modelWindow}).Draw(t, "wait"))
}

func (w *world) sweeps(t *rapid.T) {
	want := 0
	for _, a := range w.attempts {
		if a.state == StateInProgress && a.over(w.clock(), modelWindow) {
			a.state, a.swept = StateExpired, true
			want++
		}
	}
	if got, err := w.Sweep(t.Context()); err != nil || got != want {
		t.Fatalf("the sweep closed %d, %v, want %d", got, err, want)
	}
}

// submits sends random answers to a random attempt, mostly as its owner.
func (w *world) submits(t *rapid.T) {
	if len(w.attempts) == 0 {
		t.Skip("nothing was opened")
	}
	a := rapid.SampledFrom(w.attempts).Draw(t, "attempt")
	status := rapid.SampledFrom([]State{"", StateSubmitted, StateSubmitted, StateExpired, StateAbandoned}).Draw(t, "status")
	var answers []Answer
	for _, q := range a.edition.key.Keys {
		if rapid.Bool().Draw(t, "answered") {
			answers = append(answers, Answer{Key: catalog.AnswerID(q.Section, q.Number), Value: drawAnswer(t, q)})
		}
	}
	w.submit(t, a, w.claimant(t, a), status, answers)
}

// retries repeats an accepted submission, in another order.
func (w *world) retries(t *rapid.T) {
	var done []*modelAttempt
	for _, a := range w.attempts {
		if a.first != nil {
			done = append(done, a)
		}
	}
	if len(done) == 0 {
		t.Skip("nothing was submitted")
	}
	a := rapid.SampledFrom(done).Draw(t, "attempt")
	var answers []Answer
	for i, q := range slices.Backward(a.edition.key.Keys) {
		answers = append(answers, Answer{Key: catalog.AnswerID(q.Section, q.Number), Value: a.first.answers[i]})
	}
	w.submit(t, a, w.claimant(t, a), a.first.status, answers)
}

// claim is who says the attempt is theirs.
type claim struct {
	who     keys.Identity
	exam    string
	learner string
}

// claimant is the attempt's owner in seven of ten cases, by any key of the family.
func (w *world) claimant(t *rapid.T, a *modelAttempt) claim {
	if rapid.IntRange(0, 9).Draw(t, "claimant") >= 7 {
		return claim{w.somebody(t), w.anExam(t), w.aLearner(t)}
	}
	var family []keys.Identity
	for _, who := range w.families {
		if who.FamilyID == a.family {
			family = append(family, who)
		}
	}
	return claim{rapid.SampledFrom(family).Draw(t, "key"), a.exam, a.learner}
}

func (w *world) submit(t *rapid.T, a *modelAttempt, by claim, status State, answers []Answer) {
	got, err := w.Submit(t.Context(), by.who, SubmitRequest{
		ExamKey: by.exam, AttemptID: a.id, Status: status, LearnerID: by.learner, Answers: answers,
	})
	if status == "" {
		status = StateSubmitted
	}
	now := w.clock()
	normal, _ := newSheet(a.edition.key).read(answers)
	switch {
	case by.who.FamilyID != a.family || by.exam != a.exam || by.learner != a.learner:
		mustRefuse(t, err, CodeAttemptNotFound)
	case a.swept || (a.state == StateInProgress && a.over(now, modelWindow)):
		mustRefuse(t, err, CodeAttemptClosed)
	case a.first != nil && (a.first.status != status || !slices.Equal(a.first.answers, normal)):
		mustRefuse(t, err, CodeAlreadySubmitted)
	case err != nil:
		t.Fatal(err)
	case a.first != nil:
		if body := mustJSON(t, got.Feedback); !got.Repeated || body != a.first.feedback {
			t.Fatalf("repeated %v:\n got %s\nwant %s", got.Repeated, body, a.first.feedback)
		}
	default:
		a.conclude(t, got, status, normal, now)
		if status != StateAbandoned {
			w.scored[by.who.AccountID]++
		}
	}
}

// conclude is the model's submission; it checks the engine's answer to the first one.
func (m *modelAttempt) conclude(t *rapid.T, got Result, status State, answers []string, now time.Time) {
	late := status != StateAbandoned && m.over(now, modelGrace)
	m.state = status
	if late {
		m.state = StateExpired
	}
	m.first = &modelSubmission{status: status, answers: answers, at: now, feedback: mustJSON(t, got.Feedback)}
	feedback := got.Feedback
	if got.Repeated || feedback.Status != m.state || feedback.Late != late ||
		feedback.DurationSec != int64(now.Sub(m.opened)/time.Second) || (feedback.Outcome == nil) != (status == StateAbandoned) {
		t.Fatalf("repeated %v, feedback %s, want state %s, late %v", got.Repeated, m.first.feedback, m.state, late)
	}
	if feedback.Outcome == nil {
		return
	}
	if raw, maximum := naive(*m.edition.key, answers); int64(feedback.Score) != naivePercentage(raw, maximum) {
		t.Fatalf("score %s, want %s of %s", feedback.Score, raw, maximum)
	}
}

func (w *world) readsHistory(t *rapid.T) {
	who, exam, learner := w.somebody(t), w.anExam(t), w.aLearner(t)
	if len(w.attempts) > 0 {
		by := w.claimant(t, rapid.SampledFrom(w.attempts).Draw(t, "attempt"))
		who, exam, learner = by.who, by.exam, by.learner
	}
	limit, offset := rapid.IntRange(1, 50).Draw(t, "limit"), rapid.IntRange(0, 8).Draw(t, "offset")
	got, err := w.History(t.Context(), who, HistoryRequest{ExamKey: exam, LearnerID: learner, Limit: limit, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, a := range slices.Backward(w.attempts) {
		if a.family == who.FamilyID && a.exam == exam && (learner == "" || a.learner == learner) {
			want = append(want, a.line(w.clock()))
		}
	}
	if int(got.Total) != len(want) {
		t.Fatalf("total %d, want %d", got.Total, len(want))
	}
	want = want[min(offset, len(want)):]
	want = want[:min(limit, len(want))]
	var have []string
	for _, s := range got.Attempts {
		score := "-"
		if s.Score != nil {
			score = s.Score.String()
		}
		have = append(have, fmt.Sprint(s.AttemptID, s.PaperID, s.State, score, s.OpenedAt, unix(s.ExpiresAt), unix(s.SubmittedAt)))
	}
	if !slices.Equal(have, want) {
		t.Fatalf("history:\n got %q\nwant %q", have, want)
	}
}

// line is how the attempt stands in history.
func (m *modelAttempt) line(now time.Time) string {
	state, score, submitted := m.state, "-", "-"
	if state == StateInProgress && m.over(now, modelWindow) {
		state = StateExpired
	}
	if m.first != nil {
		submitted = unix(&m.first.at)
		if m.state != StateAbandoned {
			score = Percentage(naivePercentage(naive(*m.edition.key, m.first.answers))).String()
		}
	}
	return fmt.Sprint(m.id, m.paper, state, score, m.opened, unix(m.deadline), submitted)
}

func unix(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// tellsOfEachSubmissionOnce holds after every step: two events for each scored submission and none besides.
func (w *world) tellsOfEachSubmissionOnce(t *rapid.T) {
	rows, err := w.pool.Query(t.Context(), "SELECT account_id, count(*), count(DISTINCT kind) FROM webhook_events GROUP BY account_id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[uuid.UUID]int{}
	for rows.Next() {
		var account uuid.UUID
		var events, kinds int
		if err := rows.Scan(&account, &events, &kinds); err != nil {
			t.Fatal(err)
		}
		if events%2 != 0 || kinds != 2 {
			t.Fatalf("%d events of %d kinds", events, kinds)
		}
		found[account] = events / 2
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(found, w.scored) {
		t.Fatalf("events of %v, want %v", found, w.scored)
	}
}

func mustRefuse(t *rapid.T, err error, code string) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func mustJSON(t *rapid.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
