package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// operations are the nine of the specification, each with a request that succeeds; %ATTEMPT% is an open attempt.
var operations = []struct {
	name, method, path, body string
	exam                     bool // has {exam_key}
}{
	{"listExams", "GET", "/v1/exam-prep/list", "", false},
	{"getExamOverview", "GET", examPath + "/overview", "", true},
	{"getExamResources", "GET", examPath + "/resources", "", true},
	{"getExamStudyPath", "GET", examPath + "/study-path", "", true},
	{"listMockPapers", "GET", examPath + "/mock-exams", "", true},
	{"openMockPaper", "POST", examPath + "/mock-exams/open", `{"paper_id":"` + testPaper + `"}`, true},
	{"getMockQuestionPage", "POST", examPath + "/mock-exams/questions", `{"paper_id":"` + testPaper + `"}`, true},
	{"submitMockAttempt", "POST", examPath + "/mock-exams/submit", `{"attempt_id":"%ATTEMPT%","answers":{}}`, true},
	{"listMockAttempts", "GET", examPath + "/mock-exams/history", "", true},
}

func (a *api) open() string {
	a.t.Helper()
	id, _ := a.post(examPath+"/mock-exams/open", `{"paper_id":"`+testPaper+`"}`).document(a.t)["attempt_id"].(string)
	return id
}

func TestEveryOperationAnswersItsStatuses(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	exhausted := a.NewKey("slow", keys.TierSpec{Requests: 1, Period: time.Hour, Burst: 1})
	if first := a.call("GET", "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + exhausted}); first.status != http.StatusOK {
		t.Fatalf("the one request of an hour: %d %s", first.status, first.body)
	}
	mistyped := a.Key[:len(a.Key)-1] + map[bool]string{true: "0", false: "1"}[a.Key[len(a.Key)-1] != '0']
	for _, o := range operations {
		body := strings.ReplaceAll(o.body, "%ATTEMPT%", a.open())
		send := func(header map[string]string, path string) response { return a.call(o.method, path, body, header) }
		t.Run(o.name, func(t *testing.T) {
			send(nil, o.path).expect(t, http.StatusOK, "200")
			for name, authorization := range map[string]string{
				"none": "", "mistyped": "Bearer " + mistyped, "no key": "Bearer x", "another scheme": "Basic " + a.Key,
				"the bare key": a.Key, "of the right form, never issued": "Bearer " + unissuedKey,
			} {
				got := send(map[string]string{"Authorization": authorization}, o.path)
				if got.status != http.StatusUnauthorized || got.code(t) != "unauthorized" || got.document(t)["detail"] != "Invalid API key" ||
					got.header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("401 for %s: %d %s %v", name, got.status, got.body, got.header)
				}
			}
			got := send(map[string]string{"Authorization": "Bearer " + exhausted}, o.path)
			retry, err := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != http.StatusTooManyRequests || !sameJSON(got.body, `{"error":"rate_limited","detail":"API rate limit exceeded."}`) ||
				err != nil || retry < 1 || got.header.Get("RateLimit-Remaining") != "0" || got.header.Get("RateLimit-Limit") != "1" {
				t.Errorf("429: %d %s %v", got.status, got.body, got.header)
			}
			if !o.exam {
				return
			}
			for _, exam := range []string{"no-such-exam", "%00", "%ff", "a%2Fb", "..", "%E2%80%A6"} {
				got := send(nil, strings.Replace(o.path, testExam, exam, 1))
				if got.status != http.StatusNotFound || got.code(t) != "exam_not_found" {
					t.Errorf("404 for %s: %d %s", exam, got.status, got.body)
				}
			}
		})
	}
}

// unissuedKey has a right checksum: CRC32 of "service_" and forty zeros.
const unissuedKey = "service_00000000000000000000000000000000000000005176df86"

// refusedRequest is a request and the refusal that answers it; %ATTEMPT% in its body is an open attempt.
type refusedRequest struct {
	name, method, path, body string
	header                   map[string]string
	status                   int
	code, field              string
}

func checkRefusals(t *testing.T, requests []refusedRequest) {
	t.Helper()
	a := newAPI(t, apitest.Options{})
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			body := c.body
			if strings.Contains(body, "%ATTEMPT%") {
				body = strings.ReplaceAll(body, "%ATTEMPT%", a.open())
			}
			got := a.call(c.method, c.path, body, c.header)
			if got.status != c.status || got.code(t) != c.code {
				t.Fatalf("%d %s, want %d %s", got.status, got.body, c.status, c.code)
			}
			if c.field != "" && !strings.Contains(got.body, `"field":"`+c.field+`"`) {
				t.Errorf("%s is not named: %s", c.field, got.body)
			}
			if got.header.Get("Cache-Control") != "no-store" || got.header.Get("ETag") != "" {
				t.Errorf("a refusal can be cached: %v", got.header)
			}
		})
	}
}

func TestRefusalsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	const open, page, submit = examPath + "/mock-exams/open", examPath + "/mock-exams/questions", examPath + "/mock-exams/submit"
	checkRefusals(t, []refusedRequest{
		{"no body", "POST", open, "", nil, 400, "invalid_json", ""},
		{"not JSON", "POST", open, "paper_id=1", nil, 400, "invalid_json", ""},
		{"duplicate key", "POST", open, `{"paper_id":"abcdef","paper_id":"abcdef"}`, nil, 400, "invalid_json", "paper_id"},
		{"trailing bytes", "POST", open, `{"paper_id":"abcdef"} 1`, nil, 400, "invalid_json", ""},
		{"invalid UTF-8", "POST", open, "{\"paper_id\":\"\xff\xff\xff\xff\xff\xff\"}", nil, 400, "invalid_json", ""},
		{"deep nesting", "POST", open, strings.Repeat("[", 10_000), nil, 400, "invalid_json", ""},
		{"NUL", "POST", page, `{"paper_id":"abc\u0000def"}`, nil, 400, "validation_failed", "paper_id"},
		{"answer twice", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"1:1":"A","1:1":"B"}}`, nil, 400, "duplicate_answer_key", "answers.1:1"},
		{"answer twice, by another name", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"2:3":"A","3":"B"}}`, nil, 400, "duplicate_answer_key", ""},
		{"unknown question", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"9:9":"A"}}`, nil, 400, "unknown_answer_id", ""},
		{"unknown question, null", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"9:9":null}}`, nil, 400, "unknown_answer_id", ""},
		{"ambiguous question", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"1":"A"}}`, nil, 400, "ambiguous_answer_key", ""},
		{"unknown option", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{"1:1":"E"}}`, nil, 400, "invalid_option", ""},

		{"country code", "GET", "/v1/exam-prep/list?country_code=ESP", "", nil, 400, "validation_failed", "country_code"},
	})
}

func TestRefusalsOfWhatIsNotServedBearItsStatus(t *testing.T) {
	t.Parallel()
	const open, page, submit = examPath + "/mock-exams/open", examPath + "/mock-exams/questions", examPath + "/mock-exams/submit"
	checkRefusals(t, []refusedRequest{
		{"unknown paper", "POST", open, `{"paper_id":"no-such-paper"}`, nil, 404, "paper_not_found", ""},
		{"a paper of another exam", "POST", page, `{"paper_id":"` + otherExam + `-2023"}`, nil, 404, "paper_not_found", ""},
		{"unknown attempt", "POST", submit, `{"attempt_id":"` + uuid.NewString() + `","answers":{}}`, nil, 404, "attempt_not_found", ""},
		{"no attempt's id", "POST", submit, `{"attempt_id":"abcdef","answers":{}}`, nil, 404, "attempt_not_found", ""},
		{"another learner's attempt", "POST", submit, `{"attempt_id":"%ATTEMPT%","answers":{},"learner_id":"x"}`, nil, 404, "attempt_not_found", ""},
		{"unknown route", "GET", "/v1/nothing", "", nil, 404, "not_found", ""},
		{"root", "GET", "/", "", nil, 404, "not_found", ""},
		{"trailing slash", "GET", examPath + "/overview/", "", nil, 404, "not_found", ""},
		{"double slash", "GET", "/v1//exam-prep/list", "", nil, 404, "not_found", ""},
		{"dots", "GET", "/v1/exam-prep/x/../list", "", nil, 404, "not_found", ""},
		{"an encoded route", "GET", "/v1/exam%2Dprep/list", "", nil, 404, "not_found", ""},
		{"method", "PUT", open, "{}", nil, 405, "method_not_allowed", ""},
		{"too large", "POST", open, strings.Repeat(" ", 16<<10+1), nil, 413, "payload_too_large", ""},
		{"a submission too large", "POST", submit, strings.Repeat(" ", 1<<20+1), nil, 413, "payload_too_large", ""},
		{"no content type", "POST", open, "{}", map[string]string{"Content-Type": ""}, 415, "unsupported_media_type", ""},
		{"a form", "POST", open, "{}", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type", ""},
		{"another charset", "POST", open, "{}", map[string]string{"Content-Type": "application/json; charset=utf-16"}, 415, "unsupported_media_type", ""},
		{"compressed", "POST", open, "{}", map[string]string{"Content-Encoding": "gzip"}, 415, "unsupported_media_type", ""},
	})
}

func TestBodiesUpToTheLimitAreRead(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	body := `{"paper_id":"` + testPaper + `"}`
	body += strings.Repeat(" ", 16<<10-len(body))
	a.post(examPath+"/mock-exams/questions", body).expect(t, http.StatusOK, "a body of 16 KiB")
	body = `{"attempt_id":"` + uuid.NewString() + `","answers":{}}`
	body += strings.Repeat(" ", 1<<20-len(body))
	a.post(examPath+"/mock-exams/submit", body).expect(t, http.StatusNotFound, "a submission of 1 MiB")
}

func TestRequestIDIsAnsweredAlways(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{"/v1/exam-prep/list", "/nowhere", examPath + "/mock-exams/history?limit=x"} {
		for presented, kept := range map[string]bool{"abc-DEF_1.2": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "": false} {
			got := a.call("GET", path, "", map[string]string{"X-Request-Id": presented}).header.Values("X-Request-Id")
			if len(got) != 1 || (got[0] == presented) != kept {
				t.Errorf("%s: %q became %q", path, presented, got)
			}
			if id, err := uuid.Parse(got[0]); !kept && (err != nil || id.Version() != 7) {
				t.Errorf("%s: %q became %q, no UUIDv7", path, presented, got)
			}
		}
	}
}

func TestRateHeadersTellTheAllowance(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	key := a.NewKey("told", keys.TierSpec{Requests: 120, Period: time.Hour}) // a token returns after 30 s
	header := map[string]string{"Authorization": "Bearer " + key}
	before := 120
	for range 3 {
		got := a.call("GET", "/v1/exam-prep/list", "", header)
		remaining, err := strconv.Atoi(got.header.Get("RateLimit-Remaining"))
		if err != nil || remaining >= before || got.header.Get("RateLimit-Limit") != "120" || got.header.Get("RateLimit-Policy") != "120;w=3600" {
			t.Errorf("after %d left: %v", before, got.header)
		}
		before = remaining
	}
}

func TestGuessingIsLimitedByAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Tier{Name: "anonymous", Requests: 2, Period: time.Hour, Burst: 2}}})
	if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK {
		t.Fatalf("a good key: %d", got.status)
	}
	statuses := make([]int, 0, 4)
	for range 4 {
		statuses = append(statuses, a.call("GET", "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer guess"}).status)
	}
	check.Slices(t, statuses, []int{401, 401, 429, 429}, "statuses of guesses")
	a.get("/v1/exam-prep/list").expect(t, http.StatusOK, "a good key at that address")
}

func TestPostgresAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	id := a.open()
	testkit.CutOff(t, a.Pool)
	for _, c := range []struct{ method, path, body string }{
		{"GET", examPath + "/mock-exams/history", ""},
		{"POST", examPath + "/mock-exams/open", `{"paper_id":"` + testPaper + `"}`},
		{"POST", examPath + "/mock-exams/submit", `{"attempt_id":"` + id + `","answers":{}}`},
	} {
		got := a.call(c.method, c.path, c.body, nil)
		if retry, err := strconv.Atoi(got.header.Get("Retry-After")); got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || err != nil || retry < 1 {
			t.Errorf("%s: %d %s, Retry-After %q", c.path, got.status, got.body, got.header.Get("Retry-After"))
		}
	}
	for _, path := range []string{"/v1/exam-prep/list", examPath + "/overview", examPath + "/mock-exams"} {
		a.get(path).expect(t, http.StatusOK, "%s, which is in memory", path)
	}
}

func TestRequestsAreMeasuredByOperation(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	a.get(examPath + "/overview")
	a.get("/v1/exam-prep/none/overview")
	a.get("/nowhere")
	for _, c := range []struct{ operation, status string }{{"getExamOverview", "2xx"}, {"getExamOverview", "4xx"}, {"unknown", "4xx"}} {
		check.Equal(t, a.metric("examprep_http_requests_total", map[string]string{"operation": c.operation, "status": c.status}), 1, "requests of %s counted as %s", c.operation, c.status)
	}
}

func TestErrorsAreCountedByOperationAndCode(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	a.get("/v1/exam-prep/none/overview")
	a.post(examPath+"/mock-exams/open", "{}")
	for operation, code := range map[string]string{"getExamOverview": "exam_not_found", "openMockPaper": "validation_failed"} {
		check.Equal(t, a.metric("examprep_http_errors_total", map[string]string{"operation": operation, "code": code}), 1, "errors of %s counted as %s", operation, code)
	}
}

// sortedList puts the elements of a header's list in order.
func sortedList(value string) string {
	elements := strings.Split(value, ",")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	slices.Sort(elements)
	return strings.Join(elements, ", ")
}

// TestTheHeadersShowTheTierFromItsChangeOn: a change of tier gives no token back.
func TestTheHeadersShowTheTierFromItsChangeOn(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	key := a.NewKey("acme", keys.TierSpec{Requests: 100, Period: time.Hour})
	for _, step := range []struct {
		name                     string
		requests                 int
		period                   time.Duration
		limit, remaining, policy string
	}{
		{"as issued", 0, 0, "100", "99", "100;w=3600"},
		{"raised", 5000, 24 * time.Hour, "5000", "4998", "5000;w=86400"},
		{"lowered", 30, time.Hour, "30", "27", "30;w=3600"},
	} {
		if step.requests > 0 {
			tier := keys.TierSpec{Name: "acme", Requests: step.requests, Period: step.period, Accounts: []string{"acme"}}
			check.NoError(t, a.Keys.ApplyTier(t.Context(), tier))
		}
		got := a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key})
		for name, want := range map[string]string{
			"RateLimit-Limit": step.limit, "RateLimit-Remaining": step.remaining, "RateLimit-Policy": step.policy,
		} {
			if header := got.header.Get(name); got.status != http.StatusOK || header != want {
				t.Errorf("%s: %d with %s: %s, want %s", step.name, got.status, name, header, want)
			}
		}
	}
}
