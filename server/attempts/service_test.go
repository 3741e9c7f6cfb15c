package attempts

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAnAttemptFromOpeningToHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "ann")
	if opened.State != StateInProgress || opened.QuestionCount != 6 || len(opened.Questions) != 6 ||
		!opened.ExpiresAt.Equal(opened.OpenedAt.Add(minutes*time.Minute)) {
		t.Fatalf("opened %+v", opened)
	}
	if id, err := uuid.Parse(opened.AttemptID); err != nil || id.Version() != 7 {
		t.Errorf("attempt id %q is no UUIDv7", opened.AttemptID)
	}
	b.advance(10*time.Minute + 500*time.Millisecond)
	result, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
	check.NoError(t, err)
	if got := result.Feedback; State(got.Status) != StateSubmitted || got.Late || got.Score.String() != "80" || got.DurationSec != 600 || result.Repeated {
		t.Errorf("feedback %s", toJSON(t, got))
	}
	history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, LearnerID: "ann", Limit: 10})
	check.NoError(t, err)
	want := `{"attempts":[{"attempt_id":"` + opened.AttemptID + `","paper_id":"test-exam-2020","score":80,` +
		`"submitted_at":"2026-03-01T09:10:00.623456Z","state":"submitted","opened_at":"2026-03-01T09:00:00.123456Z",` +
		`"expires_at":"2026-03-01T10:30:00.123456Z"}],"total":1}`
	if got := toJSON(t, history); got != want {
		t.Errorf("history:\n got %s\nwant %s", got, want)
	}
	events := b.bodies(t, who.AccountID)
	wantSubmitted := `[{"answered_count":3,"attempt_id":"` + opened.AttemptID + `","exam_key":"test-exam","learner_id_provided":true,` +
		`"paper_id":"test-exam-2020","question_count":6,"status":"submitted","submitted_at":"2026-03-01T09:10:00.623456Z"}]`
	if got := toJSON(t, events["mock_attempt.submitted"]); got != wantSubmitted {
		t.Errorf("submitted event:\n got %s\nwant %s", got, wantSubmitted)
	}
	wantScored := `[{"attempt_id":"` + opened.AttemptID + `","exam_key":"test-exam","learner_id_provided":true,"paper_id":"test-exam-2020","score":80}]`
	if got := toJSON(t, events["mock_attempt.scored"]); got != wantScored {
		t.Errorf("scored event:\n got %s\nwant %s", got, wantScored)
	}
	if b.notified.Load() != 1 {
		t.Errorf("notified %d times", b.notified.Load())
	}
}

func TestTheDeadlineAndItsGrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	for _, c := range []struct {
		name     string
		after    time.Duration
		status   State
		want     State
		late     bool
		overtime int64
		refused  string
	}{
		{name: "in time", after: time.Minute, want: StateSubmitted},
		{name: "within the grace", after: minutes*time.Minute + grace, want: StateSubmitted},
		{name: "after the grace", after: minutes*time.Minute + grace + time.Microsecond, want: StateExpired, late: true, overtime: 60},
		{name: "the client's timer ran out", after: minutes * time.Minute, status: StateExpired, want: StateExpired},
		{name: "abandoned late is abandoned", after: minutes*time.Minute + time.Hour, status: StateAbandoned, want: StateAbandoned},
		{name: "the last moment", after: minutes*time.Minute + lateWindow, want: StateExpired, late: true, overtime: 86400},
		{name: "too late", after: minutes*time.Minute + lateWindow + time.Microsecond, refused: CodeAttemptClosed},
		{name: "too late to abandon", after: minutes*time.Minute + lateWindow + time.Hour, status: StateAbandoned, refused: CodeAttemptClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened := b.open(t, who, "")
			b.advance(c.after)
			req := submission1(opened, "")
			req.Status = c.status
			result, err := b.Submit(t.Context(), who, req)
			if c.refused != "" {
				wantCode(t, err, c.refused)
				return
			}
			check.NoError(t, err)
			got := result.Feedback
			if State(got.Status) != c.want || got.Late != c.late || got.OvertimeSec != c.overtime {
				t.Errorf("got %s, late %v by %d s", got.Status, got.Late, got.OvertimeSec)
			}
			if (got.Outcome == nil) != (c.want == StateAbandoned) {
				t.Errorf("scored: %v", got.Outcome != nil)
			}
		})
	}
}

func TestWithoutATimeLimitNothingExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, 0, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "")
	if opened.ExpiresAt != nil {
		t.Fatalf("expires at %v", opened.ExpiresAt)
	}
	b.advance(10000 * time.Hour)
	if closed, err := b.Sweep(t.Context()); closed != 0 || err != nil {
		t.Fatalf("the sweep closed %d, %v", closed, err)
	}
	result, err := b.Submit(t.Context(), who, submission1(opened, ""))
	if err != nil || result.Feedback.Late || State(result.Feedback.Status) != StateSubmitted {
		t.Fatalf("got %s, %v", toJSON(t, result), err)
	}
}

func TestAnAttemptIsFoundByItsOwnerAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who, other := b.someone(t), b.someone(t)
	named, anonymous := b.open(t, who, "ann"), b.open(t, who, "")
	for _, c := range []struct {
		name     string
		who      keys.Identity
		exam, id string
		learner  string
		code     string
	}{
		{"another key", other, testExam, named.AttemptID, "ann", CodeAttemptNotFound},
		{"another learner", who, testExam, named.AttemptID, "bob", CodeAttemptNotFound},
		{"no learner", who, testExam, named.AttemptID, "", CodeAttemptNotFound},
		{"a learner for an attempt without", who, testExam, anonymous.AttemptID, "ann", CodeAttemptNotFound},
		{"another exam", who, otherExam, named.AttemptID, "ann", CodeAttemptNotFound},
		{"an exam that does not exist", who, "nothing", named.AttemptID, "ann", CodeExamNotFound},
		{"not a UUID", who, testExam, "attempt-1", "ann", CodeAttemptNotFound},
		{"a UUID in braces", who, testExam, "{" + named.AttemptID + "}", "ann", CodeAttemptNotFound},
		{"an unknown UUID", who, testExam, uuid.NewString(), "ann", CodeAttemptNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Submit(t.Context(), c.who, SubmitRequest{ExamKey: c.exam, AttemptID: c.id, LearnerID: c.learner})
			wantCode(t, err, c.code)
		})
	}
	rotated := keys.Identity{KeyID: uuid.New(), FamilyID: who.FamilyID, AccountID: who.AccountID}
	if _, err := b.Submit(t.Context(), rotated, submission1(named, "ann")); err != nil {
		t.Errorf("the rotated key does not inherit: %v", err)
	}
}

func TestASecondSubmission(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "ann")
	first, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
	check.NoError(t, err)
	other := markingtest.EveryKind()
	other.Marking.Correct = 100
	b.shelf.publish(testExam, testPaper, minutes, other)
	b.advance(1000 * time.Hour)

	same := submission1(opened, "ann")
	same.Status = StateSubmitted // the default, spelled out
	same.Answers = []marking.Answer{{Key: "2:1", Value: " 12.5"}, {Key: "1:2", Value: "ACD"}, {Key: "1:1", Value: "B"}}
	again, err := b.Submit(t.Context(), who, same)
	check.NoError(t, err)
	if !again.Repeated || toJSON(t, again.Feedback) != toJSON(t, first.Feedback) {
		t.Errorf("repeated %v:\n got %s\nwant %s", again.Repeated, toJSON(t, again.Feedback), toJSON(t, first.Feedback))
	}
	different := submission1(opened, "ann")
	different.Answers[0].Value = "A"
	_, err = b.Submit(t.Context(), who, different)
	wantCode(t, err, CodeAlreadySubmitted)
	expired := submission1(opened, "ann")
	expired.Status = StateExpired
	_, err = b.Submit(t.Context(), who, expired)
	wantCode(t, err, CodeAlreadySubmitted)
	if events := b.bodies(t, who.AccountID); len(events["mock_attempt.submitted"]) != 1 || len(events["mock_attempt.scored"]) != 1 {
		t.Errorf("events: %v", events)
	}
}

func TestARefusedSubmissionRecordsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "")
	bad := submission1(opened, "")
	bad.Answers = append(bad.Answers, marking.Answer{Key: "1", Value: "A"})
	_, err := b.Submit(t.Context(), who, bad)
	wantCode(t, err, marking.CodeAmbiguousKey)
	unknown := submission1(opened, "")
	unknown.Status = "finished"
	_, err = b.Submit(t.Context(), who, unknown)
	wantCode(t, err, CodeValidationFailed)
	if events := b.bodies(t, who.AccountID); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
	if result, err := b.Submit(t.Context(), who, submission1(opened, "")); err != nil || result.Repeated {
		t.Errorf("the attempt is no longer open: %v", err)
	}
}

func TestAnAbandonedAttemptIsRecordedWithoutEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "")
	req := submission1(opened, "")
	req.Status = StateAbandoned
	for _, repeated := range []bool{false, true} {
		result, err := b.Submit(t.Context(), who, req)
		if err != nil || result.Repeated != repeated || State(result.Feedback.Status) != StateAbandoned || result.Feedback.Outcome != nil {
			t.Fatalf("got %s, %v", toJSON(t, result), err)
		}
	}
	_, err := b.Submit(t.Context(), who, submission1(opened, ""))
	wantCode(t, err, CodeAlreadySubmitted)
	history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10})
	if err != nil || history.Total != 1 || history.Attempts[0].State != StateAbandoned || history.Attempts[0].Score != nil {
		t.Errorf("history %s, %v", toJSON(t, history), err)
	}
	if events := b.bodies(t, who.AccountID); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
}

func TestAnAttemptKeepsTheRevisionItOpened(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "ann")
	changed := markingtest.EveryKind()
	changed.Keys = changed.Keys[:2]
	changed.Keys[0].Answer.Choices = []string{"C"}
	b.shelf.publish(testExam, testPaper, minutes, changed)

	page := func(learner string) (Page, error) {
		return b.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Offset: 1, Limit: 2, LearnerID: learner})
	}
	if got, err := page("ann"); err != nil || got.Total != 6 || len(got.Questions) != 2 || !strings.Contains(string(got.Questions[0]), "revision 0") {
		t.Errorf("with the attempt: %d, %s, %v", got.Total, got.Questions, err)
	}
	if got, err := page("bob"); err != nil || got.Total != 2 || len(got.Questions) != 1 || !strings.Contains(string(got.Questions[0]), "revision 1") {
		t.Errorf("without an attempt: %d, %s, %v", got.Total, got.Questions, err)
	}
	b.shelf.withdraw(testExam, testPaper)
	if got, err := page("ann"); err != nil || got.Total != 6 {
		t.Errorf("after the paper was withdrawn: %d, %v", got.Total, err)
	}
	_, err := page("bob")
	wantCode(t, err, CodePaperNotFound)
	result, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
	if err != nil || result.Feedback.Score.String() != "80" {
		t.Fatalf("scored by another revision: %s, %v", toJSON(t, result), err)
	}
	_, err = page("ann")
	wantCode(t, err, CodePaperNotFound)
}

func TestWhatDoesNotExistIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	for _, c := range []struct{ exam, paper, code string }{
		{"nothing", testPaper, CodeExamNotFound},
		{testExam, "nothing", CodePaperNotFound},
		{otherExam, testPaper, CodePaperNotFound},
	} {
		_, err := b.Open(t.Context(), who, OpenRequest{ExamKey: c.exam, PaperID: c.paper, Limit: 1})
		wantCode(t, err, c.code)
		_, err = b.Page(t.Context(), who, PageRequest{ExamKey: c.exam, PaperID: c.paper, Limit: 1})
		wantCode(t, err, c.code)
	}
	_, err := b.History(t.Context(), who, HistoryRequest{ExamKey: "nothing", Limit: 10})
	wantCode(t, err, CodeExamNotFound)
	if history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10}); err != nil || toJSON(t, history) != `{"attempts":[],"total":0}` {
		t.Errorf("history before the first attempt: %s, %v", toJSON(t, history), err)
	}
}

func TestPagesStayWithinThePaper(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	for _, c := range []struct{ offset, limit, want int }{{0, 9, 6}, {4, 9, 2}, {6, 9, 0}, {1 << 62, 20, 0}, {2, 1, 1}} {
		page, err := b.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Offset: c.offset, Limit: c.limit})
		if err != nil || len(page.Questions) != c.want || page.Total != 6 {
			t.Errorf("%+v: %d of %d, %v", c, len(page.Questions), page.Total, err)
		}
	}
}

// slowShelf lets the first submission wait between reading its attempt and writing it.
type slowShelf struct {
	*shelf
	first          *sync.Once
	entered, leave chan struct{}
}

func (s slowShelf) AnswerKey(ctx context.Context, exam string, digest catalog.Digest) (*marking.Key, error) {
	wait := false
	s.first.Do(func() { wait = true })
	if wait {
		close(s.entered)
		<-s.leave
	}
	return s.shelf.AnswerKey(ctx, exam, digest)
}

func TestAnAttemptThatWasCalledClosedStaysClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "ann")
	slow := slowShelf{b.shelf, new(sync.Once), make(chan struct{}), make(chan struct{})}
	b.papers = slow
	leave := sync.OnceFunc(func() { close(slow.leave) })
	defer leave()
	b.advance(minutes*time.Minute + lateWindow)
	inTime := make(chan error, 1)
	go func() {
		_, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
		inTime <- err
	}()
	testkit.Receive(t, slow.entered, "the submission looks at the answer key")
	b.advance(time.Second)
	_, err := b.Submit(t.Context(), who, submission1(opened, "ann"))
	wantCode(t, err, CodeAttemptClosed)
	leave()
	wantCode(t, testkit.Receive(t, inTime, "the submission in time is answered"), CodeAttemptClosed)
	if events := b.bodies(t, who.AccountID); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
	if closed, err := b.Sweep(t.Context()); closed != 0 || err != nil {
		t.Errorf("the sweep closed it again: %d, %v", closed, err)
	}
}
