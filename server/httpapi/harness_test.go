package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const (
	testExam  = "xx-sample"
	otherExam = "yy-other"
	testPaper = "xx-sample-2023"
	// waitFor bounds every wait for something to happen; it is never waited out when all is well.
	waitFor = 20 * time.Second
)

type api struct {
	*apitest.API

	t testing.TB
	// recorder keeps the answers of call, where a test wants them kept.
	recorder *openapitest.Recorder
}

func newAPI(t testing.TB, options ...apitest.Options) *api {
	t.Helper()
	o := append(options, apitest.Options{})[0]
	if o.Exams == nil {
		o.Exams = []catalog.Exam{sampleExam(testExam), sampleExam(otherExam)}
	}
	return &api{t: t, API: apitest.New(t, o)}
}

// variant serves from the same stores at another address, with other bounds and whatever change replaces (nil: nothing).
func (a *api) variant(config httpapi.Config, change func(deps *httpapi.Deps)) *api {
	a.t.Helper()
	return &api{t: a.t, API: a.Variant(config, change), recorder: a.recorder}
}

type response struct {
	status int
	header http.Header
	body   string
	// closes tells that the answer announces the end of its connection.
	closes bool
}

func (r response) document(t testing.TB) map[string]any {
	t.Helper()
	var parsed map[string]any
	testkit.Decode(t, []byte(r.body), &parsed)
	return parsed
}

// call sends a request with the good key, unless header says otherwise (an empty value removes a header), and holds the
// answer against the contract.
func (a *api) call(method, path, body string, header map[string]string) response {
	a.t.Helper()
	all := map[string]string{"Authorization": "Bearer " + a.Key}
	if method == http.MethodPost {
		all["Content-Type"] = "application/json"
	}
	maps.Copy(all, header)
	if all["Accept-Encoding"] == "" {
		all["Accept-Encoding"] = "identity" // else the client asks for gzip by itself
	}
	got, content := testkit.Call(a.t, http.DefaultTransport.RoundTrip, method, "http://"+a.Address+path, body, all)
	answer := response{got.StatusCode, got.Header, content, got.Close}
	if a.recorder == nil {
		checkAnswer(a.t, method, path, answer)
	} else {
		checkAnswerBy(a.t, a.recorder.Check, method, path, answer)
	}
	return answer
}

func (a *api) get(path string) response { a.t.Helper(); return a.call(http.MethodGet, path, "", nil) }

func (a *api) post(path, body string) response {
	a.t.Helper()
	return a.call(http.MethodPost, path, body, nil)
}

// checkEnvelope checks what every answer owes: a request id, the rate headers, and the Error body unless it succeeded.
func checkEnvelope(t testing.TB, method string, r response) {
	t.Helper()
	if r.header.Get("X-Request-Id") == "" {
		t.Errorf("%d without x-request-id", r.status)
	}
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"} {
		if r.header.Get(name) == "" {
			t.Errorf("%d without %s", r.status, name)
		}
	}
	check.Equal(t, r.header.Get("Server"), "", "name of the server's software")
	if r.status < 400 || method == http.MethodHead {
		return
	}
	check.Equal(t, r.header.Get("Content-Type"), "application/json", "content type of %d", r.status)
	var failure struct {
		Error  string `json:"error"`
		Detail string `json:"detail"`
		Errors []struct {
			Field  string `json:"field"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	if err := json.Unmarshal([]byte(r.body), &failure); err != nil || failure.Error == "" || failure.Detail == "" {
		t.Errorf("%d without an Error body: %s", r.status, r.body)
	}
	for _, field := range failure.Errors {
		if field.Field == "" || field.Detail == "" {
			t.Errorf("an error names no field: %s", r.body)
		}
	}
}

func (r response) code(t testing.TB) string {
	t.Helper()
	code, _ := r.document(t)["error"].(string)
	return code
}

// expect reports a response that has not the status. The format and its arguments say what was requested.
func (r response) expect(t testing.TB, status int, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	t.Helper()
	if r.status != status {
		t.Errorf("%s: %d %s, want %d", fmt.Sprintf(format, args...), r.status, r.body, status)
	}
}

func (a *api) metric(name string, labels map[string]string) float64 {
	return testkit.Metric(a.t, a.Registry, name, labels)
}

// sampleExam has one paper of six questions: two to choose from options, a number, a text, an annulled and an unmarkable
// one.
func sampleExam(key string) catalog.Exam {
	options := map[string]string{"A": "one", "B": "two", "C": "three"}
	return catalog.Exam{
		Key: key, Name: "Exam " + key, Category: "samples", Country: "Spain", CountryCode: "ES", DurationMinutes: 90,
		Sections:  []catalog.Section{{Name: "All", DurationMinutes: 90, Questions: 6, Skills: slices.Repeat([]string{strings.Repeat("patience ", 30)}, 8)}},
		Scoring:   json.RawMessage(`{"pass_mark": 3, "max_score": 12}`),
		Resources: catalog.Resources{OfficialSites: []catalog.Link{{Title: "Board", URL: "https://example.org/"}}},
		StudyPath: catalog.StudyPath{Weeks: 2, HoursTotal: 7.5, Steps: []json.RawMessage{[]byte(`{"week":1,"title":"Begin"}`)}},
		Papers: []catalog.Paper{{
			ID: key + "-2023", Title: "Sample 2023", Subject: "all", Year: 2023, Language: "en",
			Marking:    &catalog.Marking{Correct: 3, Incorrect: -1},
			Provenance: catalog.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
			Questions: []catalog.Question{
				{Section: 1, Number: 1, Prompt: "1 + 1 < 3?", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{"B"}}, Explanation: "Count.", Page: 2},
				{Section: 1, Number: 2, Prompt: "Odd?", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerChoices, Choices: []string{"A", "C"}}, HasVisual: true},
				{Section: 2, SectionName: "Second", Number: 1, Prompt: "π?", Answer: catalog.Answer{Kind: catalog.AnswerNumeric, Number: 3.14, Tolerance: 0.01}},
				{Section: 2, SectionName: "Second", Number: 2, Prompt: "Leaves eat light by…", Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "photosynthesis"}},
				{Section: 2, SectionName: "Second", Number: 3, Prompt: "Void", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerAnnulled}},
				{Section: 2, SectionName: "Second", Number: 4, Prompt: "Essay", Answer: catalog.Answer{Kind: catalog.AnswerUnmarkable}},
			},
		}},
	}
}
