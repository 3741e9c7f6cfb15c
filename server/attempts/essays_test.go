package attempts

import (
	"strings"
	"testing"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAPaperOfEssaysHasNoScore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := markingtest.EveryKind()
	key.Keys = key.Keys[5:] // the only one that no machine can mark
	b.shelf.publish(testExam, testPaper, minutes, key)
	who := b.someone(t)
	for _, c := range []struct{ requested, want State }{{StateSubmitted, StateSubmitted}, {StateExpired, StateExpired}} {
		req := SubmitRequest{
			ExamKey: testExam, AttemptID: b.open(t, who, "").AttemptID, Status: c.requested,
			Answers: []marking.Answer{{Key: "5", Value: "An essay"}},
		}
		var texts []string
		for _, repeated := range []bool{false, true} {
			result, err := b.Submit(t.Context(), who, req)
			if err != nil || result.Repeated != repeated || State(result.Feedback.Status) != c.want {
				t.Fatalf("got %s, %v", toJSON(t, result), err)
			}
			texts = append(texts, string(result.Feedback.AppendJSON(nil)))
		}
		const questions = `"ungraded_count":1,"questions":[{"answer_id":"2:5","question_number":5,"submitted":"An essay"`
		if texts[0] != texts[1] || !strings.Contains(texts[0], questions) {
			t.Errorf("feedback %s, then %s", texts[0], texts[1])
		}
		for _, member := range []string{"score", "percentage", "passed", "scaled", "sections"} {
			if strings.Contains(texts[0], `"`+member+`"`) {
				t.Errorf("the feedback has %s: %s", member, texts[0])
			}
		}
	}
	history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10})
	check.NoError(t, err)
	for _, attempt := range history.Attempts {
		if attempt.Score != nil {
			t.Errorf("history has the score %s", attempt.Score)
		}
	}
	check.Equal(t, testkit.List[string](t, b.pool, "SELECT DISTINCT scoring_status FROM attempts")[0], "not_scored", "scoring status")
	if events := b.bodies(t, who.AccountID); len(events["mock_attempt.submitted"]) != 2 || len(events) != 1 {
		t.Errorf("events: %v", events)
	}
}
