package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
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

// TestAPanicIsAnAnswerAndCounted: the next request is served.
func TestAPanicIsAnAnswerAndCounted(t *testing.T) {
	t.Parallel()
	broken := newAPI(t, apitest.Options{}).variant(httpapi.Config{}, func(deps *httpapi.Deps) { deps.Catalog = brokenCatalog{} })
	for n := 1; n <= 2; n++ {
		if got := broken.get(examPath + "/overview"); got.status != http.StatusInternalServerError {
			t.Fatalf("answered %d", got.status)
		}
		check.Equal(t, broken.metric("examprep_http_errors_total", map[string]string{"code": "internal_error"}), float64(n), "errors counted")
	}
}

// TestSlowReaderGetsAllOfALargeDocument has another client answered while the kernel has no room for the document.
func TestSlowReaderGetsAllOfALargeDocument(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{largeExam(testExam)}})
	want := a.get(examPath + "/overview").body
	request := "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key + "\r\n\r\n"
	conn := a.dial(t, "tcp")
	reader := bufio.NewReader(conn)
	for range 2 { // it is answered again on the same connection
		write(t, conn, request)
		if _, err := reader.Peek(1); err != nil { // the answer has begun
			t.Fatal(err)
		}
		if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK {
			t.Fatal(got.status)
		}
		got, err := http.ReadResponse(reader, nil)
		check.NoError(t, err)
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != want {
			t.Fatalf("%d bytes that are not the %d of the document, %v", len(body), len(want), err)
		}
		_ = got.Body.Close()
	}
}

// largeExam is an exam whose overview is larger than what a socket takes unread.
func largeExam(key string) catalog.Exam {
	exam := sampleExam(key)
	exam.Sections[0].Skills = slices.Repeat([]string{strings.Repeat("patience ", 30)}, 1000)
	exam.Sections = slices.Repeat(exam.Sections, 20)
	return exam
}
