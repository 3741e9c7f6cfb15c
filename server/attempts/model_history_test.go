package attempts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

func (w *world) readsHistory(t *rapid.T) {
	who, exam, learner := w.somebody(t), w.anExam(t), w.aLearner(t)
	if len(w.attempts) > 0 {
		by := w.claimant(t, rapid.SampledFrom(w.attempts).Draw(t, "attempt"))
		who, exam, learner = by.who, by.exam, by.learner
	}
	w.lists(t, who, exam, learner, rapid.IntRange(1, 50).Draw(t, "limit"), rapid.IntRange(0, 8).Draw(t, "offset"))
	if !w.isServed(exam) {
		w.lists(t, who, exam, "a learner without attempts", 1, 0)
	}
}

// lists checks a page of history, and its total.
func (w *world) lists(t *rapid.T, who keys.Identity, exam, learner string, limit, offset int) {
	got, err := w.History(t.Context(), who, HistoryRequest{ExamKey: exam, LearnerID: learner, Limit: limit, Offset: offset})
	var want []string
	opened := false // an attempt of the key, with any learner
	for _, a := range slices.Backward(w.attempts) {
		opened = opened || a.family == who.FamilyID && a.exam == exam
		if a.family == who.FamilyID && a.exam == exam && (learner == "" || a.learner == learner) {
			want = append(want, a.line(w.now()))
			w.sawIf(a.state == StateInProgress && a.over(w.now(), modelWindow), "history: expired before the sweep")
		}
	}
	if !opened && !w.isServed(exam) {
		mustRefuse(t, err, CodeExamNotFound)
		w.saw("history: exam_not_found")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w.sawIf(!w.isServed(exam), "history: of a withdrawn exam")
	w.sawIf(!w.isServed(exam) && len(want) == 0, "history: of a withdrawn exam, for another learner")
	w.sawIf(learner == "", "history: of a key")
	w.sawIf(learner != "", "history: of a learner")
	w.sawIf(len(want) == 0, "history: empty")
	w.sawIf(0 < len(want) && len(want) <= offset, "history: behind the end")
	if int(got.Total) != len(want) {
		t.Fatalf("total %d, want %d", got.Total, len(want))
	}
	want = want[min(offset, len(want)):]
	want = want[:min(limit, len(want))]
	var have []string
	for _, s := range got.Attempts {
		have = append(have, fmt.Sprint(s.AttemptID, s.PaperID, s.State, scoreText(s.Score), s.OpenedAt, unix(s.ExpiresAt), unix(s.SubmittedAt)))
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
		submitted, score = unix(&m.first.at), scoreText(m.first.score)
	}
	return fmt.Sprint(m.id, m.paper, state, score, m.opened, unix(m.deadline), submitted)
}

func scoreText(score *marking.Percentage) string {
	if score == nil {
		return "-"
	}
	return score.String()
}

func unix(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// tellsOfEachSubmissionOnce holds at the end: one event of each submission, another one of each score, and none besides.
func (w *world) tellsOfEachSubmissionOnce(t *rapid.T) {
	var want []string
	for _, a := range w.attempts {
		if a.first != nil && a.first.status != StateAbandoned {
			want = append(want, a.expectedEvents(t)...)
		}
	}
	var got []string
	var account uuid.UUID
	var kind string
	var event struct {
		Data json.RawMessage `json:"data"`
	}
	testkit.ForEach(t, w.pool, []any{&account, &kind, &event}, func() {
		got = append(got, fmt.Sprint(account, kind, inOrder(t, string(event.Data))))
	}, "SELECT account_id, kind, convert_from(body, 'UTF8')::json FROM webhook_events WHERE account_id = ANY ($1)",
		[]uuid.UUID{w.people[0].AccountID, w.people[1].AccountID})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("events:\n got %q\nwant %q", got, want)
	}
}

// expectedEvents is the data of the events of an attempt that was not abandoned.
func (m *modelAttempt) expectedEvents(t *rapid.T) []string {
	answered := 0
	for _, answer := range m.first.answers {
		if answer != "" {
			answered++
		}
	}
	both := map[string]any{
		"attempt_id": m.id, "exam_key": m.exam, "paper_id": m.paper, "learner_id_provided": m.learner != "",
	}
	submitted := map[string]any{
		"status": m.state, "submitted_at": m.first.at, "question_count": len(m.edition.key.Keys), "answered_count": answered,
	}
	kinds := map[string]map[string]any{"mock_attempt.submitted": submitted}
	if m.first.score != nil {
		kinds["mock_attempt.scored"] = map[string]any{"score": json.RawMessage(m.first.score.String())}
	}
	var events []string
	for kind, data := range kinds {
		maps.Copy(data, both)
		events = append(events, fmt.Sprint(m.first.account, kind, inOrder(t, mustJSON(t, data))))
	}
	return events
}
