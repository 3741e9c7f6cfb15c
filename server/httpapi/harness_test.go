package httpapi_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
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
	waitFor   = testkit.Patience
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
	o.Config = patient(o.Config)
	return &api{t: t, API: apitest.New(t, o)}
}

// patient sets the time limits that a test does not set so that they do not act in it.
func patient(config httpapi.Config) httpapi.Config {
	for _, limit := range []*time.Duration{
		&config.ReadTimeout, &config.HandleTimeout, &config.WriteTimeout, &config.IdleTimeout, &config.ShutdownGrace,
	} {
		*limit = cmp.Or(*limit, testkit.Patience)
	}
	return config
}

// variant serves from the same stores at another address, with other bounds and whatever change replaces (nil: nothing).
func (a *api) variant(config httpapi.Config, change func(deps *httpapi.Deps)) *api {
	a.t.Helper()
	return &api{t: a.t, API: a.Variant(patient(config), change), recorder: a.recorder}
}

type response struct {
	status int
	header http.Header
	body   string
	// closes reports whether the response announces the end of its connection.
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

func (a *api) dial(t testing.TB, network string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, a.Address)
	check.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.NoError(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	return conn
}

func write(t testing.TB, conn io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	check.NoError(t, err)
}

func readContinue(t testing.TB, r *bufio.Reader) {
	t.Helper()
	interim, err := http.ReadResponse(r, nil)
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("%v, %v", interim, err)
	}
	_ = interim.Body.Close()
}

func readResponse(t testing.TB, r *bufio.Reader, method string) response {
	t.Helper()
	got, err := http.ReadResponse(r, &http.Request{Method: method})
	if err == nil && got.StatusCode == http.StatusContinue {
		_ = got.Body.Close()
		got, err = http.ReadResponse(r, &http.Request{Method: method})
	}
	check.NoErrorf(t, err, "no answer")
	answer := response{got.StatusCode, got.Header, testkit.Body(t, got), got.Close}
	checkAnswer(t, method, "", answer)
	return answer
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

// contract is the document that every answer of this suite is held against.
var contract = sync.OnceValues(func() (*openapitest.Document, error) {
	return openapitest.Load(openapi.JSON())
})

func document(t testing.TB) *openapitest.Document {
	t.Helper()
	d, err := contract()
	check.NoError(t, err)
	return d
}

// checkAnswer checks what every answer owes, and holds the answer against the contract. The target is empty when it could
// not be read, or is not known.
func checkAnswer(t testing.TB, method, target string, r response) {
	t.Helper()
	d := document(t)
	checkAnswerBy(t, func(e openapitest.Exchange) error { _, err := d.Check(e); return err }, method, target, r)
}

func checkAnswerBy(t testing.TB, check func(openapitest.Exchange) error, method, target string, r response) {
	t.Helper()
	checkEnvelope(t, method, r)
	if r.status < http.StatusBadRequest && besideContract(target) {
		return
	}
	body, err := decoded(r)
	if err == nil {
		err = check(openapitest.Exchange{Method: method, Target: target, Status: r.status, Header: r.header, Body: body})
	}
	if err != nil {
		t.Errorf("against the contract: %s %s: %v", method, target, err)
	}
}

// checkExchange is checkAnswer for a response of net/http.
func checkExchange(t testing.TB, got *http.Response, body []byte) {
	t.Helper()
	checkAnswer(t, got.Request.Method, got.Request.URL.RequestURI(), response{got.StatusCode, got.Header, string(body), got.Close})
}

func besideContract(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return path == "/" || path == "/docs" || strings.HasPrefix(path, "/docs/") || path == "/v1/openapi.json" ||
		strings.HasPrefix(path, "/console/")
}

// decoded undoes the answer's Content-Encoding.
func decoded(r response) ([]byte, error) {
	body := []byte(r.body)
	if len(body) == 0 {
		return nil, nil
	}
	switch coding := r.header.Get("Content-Encoding"); coding {
	case "":
		return body, nil
	case "gzip":
		return fasthttp.AppendGunzipBytes(nil, body)
	case "br":
		return fasthttp.AppendUnbrotliBytes(nil, body)
	case "zstd":
		return fasthttp.AppendUnzstdBytes(nil, body)
	default:
		return nil, fmt.Errorf("the Content-Encoding %q is unknown", coding)
	}
}
