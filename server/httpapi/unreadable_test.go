package httpapi_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func TestUndecodableDocumentIs500(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	id := a.open()
	submission := `{"attempt_id":"` + id + `","answers":{"1:1":"B"}}`
	testkit.Exec(t, a.Pool, "UPDATE paper_answer_keys SET answer_key = '[]'")
	check := func(path, body string) {
		t.Helper()
		got := a.post(path, body)
		if got.status != http.StatusInternalServerError || got.code(t) != "internal_error" || got.header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s, want a 500 without Retry-After", path, got.status, got.body)
		}
		if !strings.Contains(a.Logs.String(), "the stored document cannot be decoded") {
			t.Errorf("the log does not name the document: %s", a.Logs)
		}
	}
	check(examPath+"/mock-exams/submit", submission)
	testkit.Exec(t, a.Pool, "UPDATE paper_revisions SET questions = '{}'")
	check("/v1/exam-prep/"+otherExam+"/mock-exams/open", `{"paper_id":"`+otherExam+`-2023"}`)
	check("/v1/exam-prep/"+otherExam+"/mock-exams/questions", `{"paper_id":"`+otherExam+`-2023"}`)
}

func TestExamThatAPodCouldNeverReadIs503(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	testkit.Exec(t, a.Pool, "UPDATE exam_revisions SET document = '[]' WHERE exam_key = '"+testExam+"'")
	fresh, err := read.OpenSnapshot(t.Context(), a.Pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{})
	check.NoError(t, err)
	restarted := a.variant(httpapi.Config{}, func(deps *httpapi.Deps) { deps.Catalog = fresh })
	for _, document := range []string{"/overview", "/resources", "/study-path", "/mock-exams"} {
		if got := restarted.get(examPath + document); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, want 503 with Retry-After", document, got.status, got.body)
		}
		if got := restarted.get("/v1/exam-prep/" + otherExam + document); got.status != http.StatusOK {
			t.Errorf("another exam's %s: %d %s", document, got.status, got.body)
		}
		if got := a.get(examPath + document); got.status != http.StatusOK {
			t.Errorf("%s on a pod that has read the exam: %d %s", document, got.status, got.body)
		}
	}
	if got := restarted.get("/v1/exam-prep/unheard-of/overview"); got.status != http.StatusNotFound {
		t.Errorf("an exam that does not exist: %d", got.status)
	}
}
