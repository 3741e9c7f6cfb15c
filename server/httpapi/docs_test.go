package httpapi_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content"
	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func (a *api) visit(method, path string, header map[string]string) response {
	a.t.Helper()
	all := map[string]string{"Accept-Encoding": "identity"}
	maps.Copy(all, header)
	got, content := testkit.Call(a.t, http.DefaultTransport.RoundTrip, method, "http://"+a.Address+path, "", all)
	answer := response{got.StatusCode, got.Header, content, got.Close}
	checkEnvelope(a.t, method, answer)
	return answer
}

func referenceParts(t *testing.T, a *api) map[string]string {
	t.Helper()
	parts := map[string]string{"/v1/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"}
	page := a.visit("GET", "/docs", nil).body
	for _, found := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(found[1], "#") || found[1] == "data:," { // a part of the page, or its empty icon
			continue
		}
		address, err := url.Parse(found[1])
		if err != nil || address.IsAbs() || address.Host != "" || strings.HasPrefix(address.Path, "/") {
			t.Errorf("the page refers to %q, which is not below where it stands", found[1])
			continue
		}
		mediaType := map[string]string{
			"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "png": "image/png", "json": "application/json",
		}[address.Path[strings.LastIndexByte(address.Path, '.')+1:]]
		parts["/"+address.Path] = mediaType
	}
	if len(parts) != 4 {
		t.Fatalf("the page is made of %d parts, want 4: %v", len(parts), parts)
	}
	return parts
}

func TestTheReferencePageLoadsNothingFromOutside(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	page := a.visit("GET", "/docs", nil)
	policy := page.header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src data:", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'",
	} {
		if !strings.Contains(policy+";", directive+";") {
			t.Errorf("the policy %q lacks %s", policy, directive)
		}
	}
	check.Equal(t, regexp.MustCompile(`<script>|<style|\son[a-z]+=|\sstyle=`).FindString(page.body), "", "code in the page that its policy would keep from working")
	for path, mediaType := range referenceParts(t, a) {
		got := a.visit("GET", path, nil)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != mediaType || got.header.Get("X-Content-Type-Options") != "nosniff" ||
			got.header.Get("Referrer-Policy") != "no-referrer" || got.body == "" {
			t.Errorf("%s: %d %v, %d bytes; want %s", path, got.status, got.header, len(got.body), mediaType)
		}
	}
	want := openapi.JSON()
	if got := a.visit("GET", "/v1/openapi.json", nil); got.body != string(want) {
		t.Error("what is served is not the contract")
	}
}

func TestTheReferenceIsCachedAndCompressed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for path := range referenceParts(t, a) {
		plain := a.visit("GET", path, nil)
		if plain.header.Get("Cache-Control") != "public, no-cache" || !strings.HasPrefix(plain.header.Get("Etag"), `"`) {
			t.Errorf("%s: %v", path, plain.header)
		}
		if head := a.visit("HEAD", path, nil); head.status != http.StatusOK || head.body != "" ||
			head.header.Get("Etag") != plain.header.Get("Etag") || head.header.Get("Content-Length") != plain.header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v %q", path, head.status, head.header, head.body)
		}
		for coding, unpack := range map[string]func(dst, packed []byte) ([]byte, error){
			"identity": nil, "gzip": fasthttp.AppendGunzipBytes, "br": fasthttp.AppendUnbrotliBytes, "zstd": fasthttp.AppendUnzstdBytes,
		} {
			got := a.visit("GET", path, map[string]string{"Accept-Encoding": coding})
			compressed := got.header.Get("Content-Encoding") == coding
			if large := len(plain.body) >= 1400; compressed != (large && coding != "identity") {
				t.Errorf("%s of %d bytes by %s: Content-Encoding %q", path, len(plain.body), coding, got.header.Get("Content-Encoding"))
			}
			content := []byte(got.body)
			if compressed {
				var err error
				if content, err = unpack(nil, content); err != nil {
					t.Errorf("%s by %s: %v", path, coding, err)
				}
			}
			if string(content) != plain.body {
				t.Errorf("%s by %s is something else", path, coding)
			}
			condition := map[string]string{"Accept-Encoding": coding, "If-None-Match": got.header.Get("Etag")}
			if again := a.visit("GET", path, condition); again.status != http.StatusNotModified || again.body != "" {
				t.Errorf("%s by %s, known already: %d", path, coding, again.status)
			}
		}
	}
}

func TestTheReferenceIsOpenAndLimitedByAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Default()}})
	parts := referenceParts(t, a) // one more load of the page
	var last response
	for path := range parts {
		if last = a.visit("GET", path, nil); last.status != http.StatusOK {
			t.Fatalf("%s within the allowance of an address: %d %s", path, last.status, last.body)
		}
	}
	check.Equal(t, last.header.Get("RateLimit-Limit"), "120", "limit, which is an address's")
	narrow := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Tier{Name: "narrow", Requests: 1, Period: 3600e9, Burst: 1}}})
	narrow.visit("GET", "/docs", nil).expect(t, http.StatusOK, "the one request of an hour")
	for _, path := range []string{"/docs", "/v1/openapi.json", "/docs/docs.js"} {
		got := narrow.visit("GET", path, nil)
		if got.status != http.StatusTooManyRequests || got.header.Get("Content-Security-Policy") != "" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s beyond the allowance: %d %v", path, got.status, got.header)
		}
	}
}

func TestTheReferenceHasOneAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{"/docs/", "/docs/index.html", "/docs/none", "/docs/..%2f..%2fgo.mod", "/docs/%2e%2e/docs.go", "/docs/docs/docs.js", "/openapi.json"} {
		if got := a.visit("GET", path, nil); got.status != http.StatusNotFound || got.code(t) != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/docs", "/v1/openapi.json"} {
		if got := a.visit("POST", path, nil); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("POST %s: %d %v", path, got.status, got.header)
		}
	}
}

// TestTheReferencePageShowsEveryOperation shows the page in a browser, which reports errors of scripts and of the policy.
func TestTheReferencePageShowsEveryOperation(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	shown := showPage(t, "http://"+a.Address+"/docs")
	contract := openapi.JSON()
	operations := regexp.MustCompile(`"operationId": "([^"]*)"`).FindAllStringSubmatch(string(contract), -1)
	if len(operations) < 30 {
		t.Fatalf("%d operations found; the document's form has changed", len(operations))
	}
	for _, operation := range operations {
		if !strings.Contains(shown, `id="`+operation[1]+`"`) {
			t.Errorf("the page does not show %s", operation[1])
		}
	}
}

// showPage returns the elements of a page that a browser shows. The page must not complain.
func showPage(t *testing.T, address string) string {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("there is no chromium to show the page: run make deps")
	}
	if err != nil {
		t.Skip("there is no chromium to show the page: run make deps")
	}
	profile, err := os.MkdirTemp("", "chromium") //nolint:usetesting // its processes may still write there, which t.TempDir would mind
	check.NoError(t, err)
	defer func() { _ = os.RemoveAll(profile) }()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	show := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=20000", "--enable-logging=stderr",
		"--dump-dom", address)
	var said strings.Builder
	show.Stderr = &said
	show.WaitDelay = testkit.Patience // for its children, which hold its output
	shown, err := show.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for line := range strings.Lines(said.String()) { // what the page's policy refuses, and errors in its scripts, too
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page complains: %s", line)
		}
	}
	return string(shown)
}

// TestTheExamplesComeTrue sends the example requests of the specification's nine operations, in their order, to a server with the
// sample exam. Each response equals the example in the contract, except for ids and times.
func TestTheExamplesComeTrue(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: sampleContent(t)})
	shown := readContract(t)
	attempt := ""
	for _, operation := range []struct{ method, path string }{
		{"get", "/exam-prep/list"},
		{"get", "/exam-prep/{exam_key}/overview"},
		{"get", "/exam-prep/{exam_key}/resources"},
		{"get", "/exam-prep/{exam_key}/study-path"},
		{"get", "/exam-prep/{exam_key}/mock-exams"},
		{"post", "/exam-prep/{exam_key}/mock-exams/open"},
		{"post", "/exam-prep/{exam_key}/mock-exams/questions"},
		{"post", "/exam-prep/{exam_key}/mock-exams/submit"},
		{"get", "/exam-prep/{exam_key}/mock-exams/history"},
	} {
		described := shown.Paths[operation.path][operation.method]
		path := "/v1" + strings.Replace(operation.path, "{exam_key}", "sample-geography", 1)
		var got response
		if operation.method == "get" {
			got = a.get(path)
		} else {
			body := described.RequestBody.Content.JSON.Example
			if _, submits := body["attempt_id"]; submits {
				body["attempt_id"] = attempt
			}
			got = a.post(path, asJSON(t, body))
		}
		if id, opened := got.document(t)["attempt_id"].(string); opened {
			attempt = id
		}
		answer := described.Responses["200"].Content.JSON
		want := answer.Example
		if want == nil {
			want = answer.Examples["scored"].Value
		}
		if g, w := asJSON(t, withoutIDsAndTimes(got.document(t))), asJSON(t, withoutIDsAndTimes(want)); got.status != http.StatusOK || g != w {
			t.Errorf("%s %s answers %d\n%s\nthe contract shows\n%s", operation.method, operation.path, got.status, g, w)
		}
	}
}

func sampleContent(t *testing.T) []catalog.Exam {
	t.Helper()
	bundle, err := content.Load(t.Context(), os.Stdin, "../../config/samples")
	check.NoError(t, err)
	var samples samplePublisher
	_, err = content.Publish(t.Context(), bundle, &samples, "test")
	check.NoError(t, err)
	return samples.exams
}

type samplePublisher struct {
	content.Publisher

	exams []catalog.Exam
}

func (p *samplePublisher) Publish(_ context.Context, _ catalog.Claim, exam catalog.ValidExam, _ catalog.Options) (catalog.Publication, error) {
	p.exams = append(p.exams, exam.Exam())
	return catalog.Publication{}, nil
}

type (
	// shownContract is the examples of the document.
	shownContract struct {
		Paths map[string]map[string]struct {
			RequestBody exampleBody            `json:"requestBody"`
			Responses   map[string]exampleBody `json:"responses"`
		} `json:"paths"`
	}
	exampleBody struct {
		Content struct {
			JSON struct {
				Example  map[string]any `json:"example"`
				Examples map[string]struct {
					Value map[string]any `json:"value"`
				} `json:"examples"`
			} `json:"application/json"`
		} `json:"content"`
	}
)

func readContract(t *testing.T) shownContract {
	t.Helper()
	text := openapi.JSON()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	testkit.Decode(t, text, &document)
	for _, item := range document.Paths {
		delete(item, "parameters") // the only other member
	}
	var parsed shownContract
	testkit.Decode(t, []byte(asJSON(t, document)), &parsed)
	return parsed
}

// withoutIDsAndTimes replaces, at any depth, what differs from one attempt to the next; that it is there still counts.
func withoutIDsAndTimes(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			switch name {
			case "attempt_id", "opened_at", "expires_at", "started_at", "submitted_at", "duration_sec":
				value[name] = reflect.TypeOf(member).String()
			default:
				value[name] = withoutIDsAndTimes(member)
			}
		}
	case []any:
		for i, element := range value {
			value[i] = withoutIDsAndTimes(element)
		}
	}
	return value
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text := testkit.Encode(t, value)
	return string(text)
}
