package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// rubric has every key of a scoring object that means something, and some that mean nothing here.
const rubric = `{"method":"rights minus wrongs","marks":{"correct":2,"incorrect":-0.5,"unanswered":0.25},"partial_credit":true,
	"max_score":20,"pass_mark":9,"scale":{"min":100,"max":800,"step":10},
	"conversion":[{"raw":-3,"scaled":150},{"raw":5,"scaled":430},{"raw":9,"scaled":700}],
	"bands":[{"label":"basic","min":100,"max":429,"descriptor":"Knows some."},{"label":"able","min":430,"max":800}],
	"source_url":"https://example.org/scoring","Method":1,"notes":{"of":["the","board"]}}`

const step1 = `{"week":1,"title":"Begin","section":"All","topics":["letters"],"activities":["read"],"hours":3.5,"paper_ids":["xx-sample-2023"],"milestone":true,"mood":null}`

func richExam() catalog.Exam {
	exam := sampleExam(testExam)
	exam.DurationMinutes, exam.Scoring = 0, json.RawMessage(rubric)
	exam.Papers[0].Marking = nil // the rubric's marks hold
	exam.StudyPath.Steps = []json.RawMessage{[]byte(step1)}
	return exam
}

func TestKeysWithoutAMeaningPassThrough(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{richExam()}})
	scoring, err := json.Marshal(a.get(examPath + "/overview").document(t)["scoring"])
	if err != nil || !sameJSON(string(scoring), rubric) {
		t.Errorf("scoring = %s, %v", scoring, err)
	}
	path, err := json.Marshal(a.get(examPath + "/study-path").document(t)["study_path"])
	if err != nil || !sameJSON(string(path), "["+step1+"]") {
		t.Errorf("study path = %s, %v", path, err)
	}
}

func TestFeedbackTellsEverything(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{richExam()}})
	id := a.open()
	got := a.post(examPath+"/mock-exams/submit", `{"attempt_id":"`+id+`","answers":{"1:1":"a","1:2":"C","2:1":"3.150","2:2":" PHOTO\tsynthesis","3":"b, A","2:4":"An  essay"}}`)
	feedback, _ := got.document(t)["feedback"].(map[string]any)
	for _, name := range []string{"started_at", "submitted_at"} {
		text, _ := feedback[name].(string)
		if at, err := time.Parse(time.RFC3339, text); err != nil || time.Since(at).Abs() > time.Hour {
			t.Errorf("%s = %v", name, feedback[name])
		}
		delete(feedback, name)
	}
	if seconds, ok := feedback["duration_sec"].(float64); !ok || seconds < 0 {
		t.Errorf("duration_sec = %v", feedback["duration_sec"])
	}
	delete(feedback, "duration_sec")
	rest := testkit.Encode(t, feedback)
	const want = `{"status":"submitted","late":false,"score":40,"raw_score":4,"max_score":10,"percentage":40,"passed":false,
		"scaled":{"value":150,"min":100,"max":800,"label":"basic","basis":"official"},
		"correct_count":2,"incorrect_count":3,"unanswered_count":0,"ungraded_count":1,
		"sections":[{"raw_score":0.5,"max_score":4,"percentage":12.5},{"name":"Second","raw_score":3.5,"max_score":6,"percentage":58.33}],
		"questions":[
		{"answer_id":"1:1","question_number":1,"submitted":"A","correct_answer":"B","is_correct":false,"marks":-0.5,"max_marks":2,"explanation":"Count.","annulled":false},
		{"answer_id":"1:2","question_number":2,"submitted":"C","correct_answer":"AC","is_correct":false,"marks":1,"max_marks":2,"annulled":false},
		{"answer_id":"2:1","question_number":1,"submitted":"3.15","correct_answer":"3.14","is_correct":true,"marks":2,"max_marks":2,"annulled":false},
		{"answer_id":"2:2","question_number":2,"submitted":"photo synthesis","correct_answer":"photosynthesis","is_correct":false,"marks":-0.5,"max_marks":2,"annulled":false},
		{"answer_id":"2:3","question_number":3,"submitted":"AB","is_correct":true,"marks":2,"max_marks":2,"annulled":true},
		{"answer_id":"2:4","question_number":4,"submitted":"An essay","marks":0,"max_marks":0,"annulled":false}]}`
	if got.status != http.StatusOK || !sameJSON(string(rest), want) {
		t.Errorf("%d\n got %s\nwant %s", got.status, rest, want)
	}
}

func TestWithoutATimeLimitNoEndIsNamed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{richExam(), sampleExam(otherExam)}})
	opened := a.post(examPath+"/mock-exams/open", `{"paper_id":"`+testPaper+`"}`)
	history := a.get(examPath + "/mock-exams/history")
	if strings.Contains(opened.body, "expires_at") || strings.Contains(history.body, "expires_at") {
		t.Errorf("opened %s\nhistory %s", opened.body, history.body)
	}
	limited := a.post("/v1/exam-prep/"+otherExam+"/mock-exams/open", `{"paper_id":"`+otherExam+`-2023"}`).document(t)
	from, _ := limited["opened_at"].(string)
	until, _ := limited["expires_at"].(string)
	begin, err := time.Parse(time.RFC3339Nano, from)
	end, err2 := time.Parse(time.RFC3339Nano, until)
	if err != nil || err2 != nil || end.Sub(begin) != 90*time.Minute {
		t.Errorf("from %q until %q", from, until)
	}
}

func TestARotatedKeyInheritsTheAttempts(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	old := a.NewKey("rotating", keys.TierSpec{Requests: 1_000_000, Period: time.Minute})
	sibling, err := a.Keys.CreateFor(t.Context(), "rotating", keys.NewKey{Name: "another key of the account"})
	check.NoError(t, err)
	by := func(key, method, path, body string) response {
		t.Helper()
		return a.call(method, examPath+"/mock-exams/"+path, body, map[string]string{"Authorization": "Bearer " + key})
	}
	id, _ := by(old, "POST", "open", `{"paper_id":"`+testPaper+`","learner_id":"ann"}`).document(t)["attempt_id"].(string)
	submission := `{"attempt_id":"` + id + `","learner_id":"ann","answers":{"1:1":"B"}}`
	const prefixLength = len("service_") + 8
	successor, err := a.Keys.Rotate(t.Context(), sibling.AccountID, old[:prefixLength], 0)
	check.NoError(t, err)
	by(old, "POST", "submit", submission).expect(t, http.StatusUnauthorized, "the old key")
	if got := by(sibling.Key, "POST", "submit", submission); got.status != http.StatusNotFound || got.code(t) != "attempt_not_found" {
		t.Errorf("another key of the account: %d %s", got.status, got.body)
	}
	if got := by(sibling.Key, "GET", "history?learner_id=ann", ""); !sameJSON(got.body, `{"attempts":[],"total":0}`) {
		t.Errorf("another key's history: %s", got.body)
	}
	for range 2 {
		by(successor.Key, "POST", "submit", submission).expect(t, http.StatusOK, "the successor")
	}
	for _, query := range []string{"history", "history?learner_id=ann"} {
		if got := by(successor.Key, "GET", query, ""); !strings.Contains(got.body, id) || !strings.HasSuffix(got.body, `"total":1}`) {
			t.Errorf("%s of the successor: %s", query, got.body)
		}
	}
}

// TestALearnerIsAnyText: the reference is compared byte by byte, U+0000 included (docs/spec.md, part 4).
func TestALearnerIsAnyText(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	opened := a.post(examPath+"/mock-exams/open", `{"paper_id":"`+testPaper+`","learner_id":"a\u0000b"}`)
	id, _ := opened.document(t)["attempt_id"].(string)
	submitted := a.post(examPath+"/mock-exams/submit", `{"attempt_id":"`+id+`","learner_id":"a\u0000b","answers":{"1:1":"B"}}`)
	if id == "" || submitted.status != http.StatusOK {
		t.Fatalf("opened: %s, submitted: %d %s", opened.body, submitted.status, submitted.body)
	}
	for learner, found := range map[string]bool{"a%00b": true, "a": false, "ab": false, "a%00": false} {
		if got := a.get(examPath + "/mock-exams/history?learner_id=" + learner); got.status != http.StatusOK || strings.Contains(got.body, id) != found {
			t.Errorf("%s: %d %s", learner, got.status, got.body)
		}
	}
}
