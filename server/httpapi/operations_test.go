package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const examPath = "/v1/exam-prep/" + testExam

func TestCatalogueIsServed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, c := range []struct{ path, want string }{
		{"/v1/exam-prep/list", `{"exams":[{"exam_key":"xx-sample","name":"Exam xx-sample","category":"samples","country":"Spain","duration_min":90},{"exam_key":"yy-other",`},
		{examPath + "/overview", `{"exam_key":"xx-sample","name":"Exam xx-sample","category":"samples","country":"Spain","duration_min":90,"sections":[{"name":"All",`},
		{examPath + "/resources", `{"exam_key":"xx-sample","official_sites":[{"title":"Board","url":"https://example.org/"}],`},
		{examPath + "/study-path", `{"exam_key":"xx-sample","study_weeks":2,"study_hours_total":7.5,"study_path":[{"week":1,"title":"Begin"}]}`},
		{examPath + "/mock-exams", `{"exam_key":"xx-sample","total_papers":1,"years":[{"year":2023,"papers":[{"paper_id":"xx-sample-2023","title":"Sample 2023","subject":"all","year":2023,"question_count":6}]}]}`},
		{"/v1/exam-prep/xx%2Dsample/study-path?unknown=1", `{"exam_key":"xx-sample","study_weeks":2,`},
	} {
		t.Run(c.path, func(t *testing.T) {
			got := a.get(c.path)
			if got.status != http.StatusOK || !strings.HasPrefix(got.body, c.want) {
				t.Errorf("%d %s\nwant %s", got.status, got.body, c.want)
			}
			if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "private, no-cache" {
				t.Errorf("headers = %v", got.header)
			}
		})
	}
}

func TestDocumentsAreRevalidated(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{"/v1/exam-prep/list", "/v1/exam-prep/list?country=spain", examPath + "/overview", examPath + "/mock-exams"} {
		for _, coding := range []string{"", "gzip", "br", "zstd"} {
			header := map[string]string{"Accept-Encoding": coding}
			first := a.call(http.MethodGet, path, "", header)
			etag := first.header.Get("ETag")
			if etag == "" || !strings.HasPrefix(etag, `"`) {
				t.Fatalf("%s: ETag = %q", path, etag)
			}
			header["If-None-Match"] = etag
			again := a.call(http.MethodGet, path, "", header)
			if again.status != http.StatusNotModified || again.body != "" || again.header.Get("ETag") != etag {
				t.Errorf("%s (%s): %d with %d bytes", path, coding, again.status, len(again.body))
			}
			header["If-None-Match"] = `"other"`
			if changed := a.call(http.MethodGet, path, "", header); changed.status != http.StatusOK || changed.body != first.body {
				t.Errorf("%s (%s): %d for another ETag", path, coding, changed.status)
			}
		}
	}
}

// TestETagIsOfTheBytes: the ETag is a part of the cache's key, so no other document may have it.
func TestETagIsOfTheBytes(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{"/v1/exam-prep/list", "/v1/exam-prep/list?country=spain", examPath + "/overview", "/v1/openapi.json"} {
		got := a.get(path)
		sum := sha256.Sum256([]byte(got.body))
		check.Equal(t, got.header.Get("ETag"), fmt.Sprintf("%q", hex.EncodeToString(sum[:16])), "%s: ETag", path)
	}
}

func TestLargeDocumentsAreCompressed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	plain := a.get(examPath + "/overview")
	etags := map[string]bool{plain.header.Get("ETag"): true}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		got := a.call(http.MethodGet, examPath+"/overview", "", map[string]string{"Accept-Encoding": coding})
		if got.header.Get("Content-Encoding") != coding || got.header.Get("Vary") != "Accept-Encoding" || len(got.body) >= len(plain.body) {
			t.Errorf("%s: %d bytes, headers %v", coding, len(got.body), got.header)
		}
		etags[got.header.Get("ETag")] = true
	}
	check.Equal(t, len(etags), 4, "the four forms have the ETags %v", etags)
	check.Equal(t, a.call(http.MethodGet, examPath+"/resources", "", map[string]string{"Accept-Encoding": "gzip"}).header.Get("Content-Encoding"), "", "coding of a document of one packet")
}

func TestEveryGetAnswersHead(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{
		"/v1/exam-prep/list", examPath + "/overview", examPath + "/resources", examPath + "/study-path",
		examPath + "/mock-exams", examPath + "/mock-exams/history",
	} {
		get, head := a.get(path), a.call(http.MethodHead, path, "", nil)
		if head.status != get.status || head.body != "" {
			t.Errorf("%s: HEAD %d with %d bytes, GET %d", path, head.status, len(head.body), get.status)
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Etag", "Cache-Control"} {
			check.Equal(t, head.header.Get(name), get.header.Get(name), "%s: %s of HEAD, and of GET", path, name)
		}
	}
	if missing := a.call(http.MethodHead, "/v1/exam-prep/none/overview", "", nil); missing.status != http.StatusNotFound || missing.body != "" {
		t.Errorf("HEAD of an unknown exam: %d with %d bytes", missing.status, len(missing.body))
	}
}

func TestMethodsAreTold(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodOptions, "/v1/exam-prep/list", http.StatusNoContent, "GET, HEAD, OPTIONS"},
		{http.MethodOptions, examPath + "/mock-exams/open", http.StatusNoContent, "OPTIONS, POST"},
		{http.MethodPost, "/v1/exam-prep/list", http.StatusMethodNotAllowed, "GET, HEAD, OPTIONS"},
		{http.MethodDelete, examPath + "/overview", http.StatusMethodNotAllowed, "GET, HEAD, OPTIONS"},
		{http.MethodGet, examPath + "/mock-exams/submit", http.StatusMethodNotAllowed, "OPTIONS, POST"},
		{http.MethodHead, examPath + "/mock-exams/open", http.StatusMethodNotAllowed, "OPTIONS, POST"},
		{"BREW", examPath + "/overview", http.StatusMethodNotAllowed, "GET, HEAD, OPTIONS"},
	} {
		got := a.call(c.method, c.path, "", nil)
		if got.status != c.status || sortedList(got.header.Get("Allow")) != c.allow {
			t.Errorf("%s %s: %d, Allow %q, want %d, %q", c.method, c.path, got.status, got.header.Get("Allow"), c.status, c.allow)
		}
	}
}

func TestAnAttemptFromOpenToHistory(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	const learner = "learner-7b1c"
	opened := a.post(examPath+"/mock-exams/open", `{"paper_id":"`+testPaper+`","question_limit":2,"learner_id":"`+learner+`"}`)
	if opened.status != http.StatusOK {
		t.Fatalf("open: %d %s", opened.status, opened.body)
	}
	attempt := opened.document(t)
	id, _ := attempt["attempt_id"].(string)
	questions, _ := attempt["questions"].([]any)
	if attempt["paper_id"] != testPaper || attempt["question_count"] != 6.0 || len(questions) != 2 || attempt["state"] != "in_progress" ||
		attempt["opened_at"] == nil || attempt["expires_at"] == nil {
		t.Errorf("attempt = %v", attempt)
	}
	first := map[string]any{
		"answer_id": "1:1", "question_number": 1.0, "prompt": "1 + 1 < 3?", "question_text": "1 + 1 < 3?", "page": 2.0,
		"options": map[string]any{"A": "one", "B": "two", "C": "three"}, "has_visual": false,
	}
	got, _ := questions[0].(map[string]any)
	for name, want := range first {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s of the first question is %v, want %v", name, got[name], want)
		}
	}

	page := a.post(examPath+"/mock-exams/questions", `{"paper_id":"`+testPaper+`","question_offset":5,"question_limit":20,"learner_id":"`+learner+`"}`).document(t)
	if rest, _ := page["questions"].([]any); page["total"] != 6.0 || len(rest) != 1 {
		t.Errorf("page = %v", page)
	}

	submission := `{"attempt_id":"` + id + `","learner_id":"` + learner + `","answers":{"1:1":"B","1:2":"CA","2:1":"3.14","2:2":" Photosynthesis "}}`
	submitted := a.post(examPath+"/mock-exams/submit", submission)
	result := submitted.document(t)
	feedback, _ := result["feedback"].(map[string]any)
	if submitted.status != http.StatusOK || !reflect.DeepEqual(result["success"], true) || feedback["score"] != 100.0 || feedback["status"] != "submitted" {
		t.Errorf("submit: %d %s", submitted.status, submitted.body)
	}
	if again := a.post(examPath+"/mock-exams/submit", submission); again.status != http.StatusOK || !sameJSON(again.body, submitted.body) {
		t.Errorf("the same submission again: %d %s", again.status, again.body)
	}
	other := strings.Replace(submission, `"1:1":"B"`, `"1:1":"A"`, 1)
	if again := a.post(examPath+"/mock-exams/submit", other); again.status != http.StatusBadRequest || again.code(t) != "attempt_already_submitted" {
		t.Errorf("another submission: %d %s", again.status, again.body)
	}

	for _, query := range []string{"", "?limit=1", "?learner_id=" + learner} {
		history := a.get(examPath + "/mock-exams/history" + query).document(t)
		list, _ := history["attempts"].([]any)
		if history["total"] != 1.0 || len(list) != 1 {
			t.Fatalf("history%s = %v", query, history)
		}
		item, _ := list[0].(map[string]any)
		if item["attempt_id"] != id || item["paper_id"] != testPaper || item["score"] != 100.0 || item["state"] != "submitted" || item["submitted_at"] == nil {
			t.Errorf("history item = %v", item)
		}
	}
	if empty := a.get(examPath + "/mock-exams/history?learner_id=someone-else"); !sameJSON(empty.body, `{"attempts":[],"total":0}`) {
		t.Errorf("another learner's history = %s", empty.body)
	}
	if log := a.Logs.String(); strings.Contains(log, learner) || strings.Contains(log, a.Key) || strings.Contains(log, "Bearer") {
		t.Error("the log holds a learner reference or a key")
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
