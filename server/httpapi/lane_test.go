package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/postgres/postgrestest"
)

// beside serves the same from a Unix socket, which no lane takes: there fasthttp alone answers.
func (a *api) beside(t *testing.T, config httpapi.Config) *api {
	t.Helper()
	other := *a
	other.registry = prometheus.NewRegistry()
	other.deps.Registerer = other.registry
	other.serve(httpapi.New(config, other.deps), "unix")
	return &other
}

// changing are the values that differ between two answers to the same request.
var changing = regexp.MustCompile(`(?m)^(Date|x-request-id|RateLimit-Remaining|RateLimit-Reset): .*\r$`)

// TestALaneAnswersAsFasthttpDoes: byte for byte, whatever is sent, and however it is cut into packets.
func TestALaneAnswersAsFasthttpDoes(t *testing.T) {
	config := httpapi.Config{MaxHeaderBytes: 4 << 10, MaxBodyBytes: 1 << 16, RefusalsPerSecond: 1 << 20}
	lane := newAPI(t, options{config: config})
	fasthttp := lane.beside(t, config)
	etag := lane.get(examPath + "/overview").header.Get("Etag")
	authorized := "Host: x\r\nAuthorization: Bearer " + lane.key + "\r\n"
	get := func(path, header string) string {
		return "GET " + path + " HTTP/1.1\r\n" + authorized + header + "\r\n"
	}
	body := `{"paper_id":"none"}`
	post := "POST " + examPath + "/mock-exams/open HTTP/1.1\r\n" + authorized + "Content-Type: application/json\r\n"
	overview := get(examPath+"/overview", "")
	lasting := []string{
		overview, get(examPath+"/resources", ""), get(examPath+"/study-path", "Accept: */*\r\n"),
		get(examPath+"/mock-exams", "User-Agent: a test\r\nConnection: keep-alive\r\n"),
		get("/v1/exam-prep/list", ""), get("/v1/exam-prep/list?country=spain&country_code=br", ""), get("/v1/exam-prep/list?country_code=%zz&limit=1", ""),
		get(examPath+"/overview", "If-None-Match: "+etag+"\r\n"), get(examPath+"/overview", "Accept-Encoding: br\r\n"),
		get(examPath+"/mock-exams/history?limit=2", ""), get(examPath+"/mock-exams/history?limit=x", ""),
		get("/v1/exam-prep/none/overview", ""), get("/v1/exam-prep//overview", ""), get("/v1/exam-prep/../overview", ""), get(examPath+"/overview/", ""),
		get(examPath+"/none", ""), get("/v1/openapi.json", ""), get("/v1/exam-prep/a%2Fb/overview", ""),
		"GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\n\r\n", "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer none\r\n\r\n",
		strings.Replace(overview, "Host: x", "Host: [::1]:80", 1), strings.Replace(overview, "GET", "HEAD", 1), strings.Replace(overview, "GET", "PUT", 1),
		get(examPath+"/overview", "Content-Length: 2\r\n") + "{}", post + withLength(body),
	}
	// What ends its connection comes last: what is sent behind it may reset the connection and take the answer along.
	ending := []string{
		"GET " + examPath + "/overview HTTP/1.1\r\n\r\n", strings.Replace(overview, "Host: x", "Host: x:y", 1), strings.Replace(overview, "1.1", "1.0", 1),
		get(examPath+"/overview#x", ""), get(examPath+"/overview", "Connection: close\r\n"), get(examPath+"/overview", "Connection: Close\r\n"),
		get(examPath+"/overview", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", get(examPath+"/overview", "Expect: 100-continue\r\n"),
		get(examPath+"/overview", " folded\r\n"), get(examPath+"/overview", "broken\r\n"), strings.ReplaceAll(overview, "\r\n", "\n"),
		get(examPath+"/overview", "Long: "+strings.Repeat("x", 5<<10)+"\r\n"),
		post + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body), "nothing of the kind\r\n\r\n",
	}
	rapid.Check(t, func(r *rapid.T) {
		sent := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lasting), 0, 3).Draw(r, "requests"), "") +
			rapid.SampledFrom(slices.Concat(lasting, ending)).Draw(r, "last")
		if rapid.IntRange(0, 3).Draw(r, "cut off") == 0 {
			sent = sent[:rapid.IntRange(1, len(sent)).Draw(r, "length")]
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(sent)), 0, 3).Draw(r, "packets end")
		got, want := lane.converse(t, "tcp", sent, cuts), fasthttp.converse(t, "unix", sent, nil)
		if got != want {
			r.Fatalf("a lane answers %q\nto %q\nfasthttp %q", got, sent, want)
		}
	})
}

// converse sends the text, in packets that end at the cuts, and returns what comes back without what is never the same.
func (a *api) converse(t *testing.T, network, text string, cuts []int) string {
	t.Helper()
	conn := a.dial(t, network)
	defer func() { _ = conn.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		from := 0
		for _, cut := range cuts {
			if cut > from {
				_, _ = io.WriteString(conn, text[from:cut])
				from = cut
			}
		}
		_, _ = io.WriteString(conn, text[from:])
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	received, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("after %q: %v", received, err)
	}
	<-done
	return changing.ReplaceAllString(string(received), "$1\r")
}

// TestAnIdleConnectionCostsNoGoroutine: nor does one whose small requests are answered.
func TestAnIdleConnectionCostsNoGoroutine(t *testing.T) {
	a := newAPI(t, options{})
	request := "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.key + "\r\n\r\n"
	ask := func(n int) {
		for range n {
			conn := a.dial(t, "tcp")
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			if got := readResponse(t, bufio.NewReader(conn), http.MethodGet); got.status != http.StatusOK {
				t.Fatal(got.status, got.body)
			}
		}
	}
	ask(10)
	before := runtime.NumGoroutine()
	ask(200)
	postgrestest.Eventually(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() < before+50 })
}

// TestASlowReaderGetsAllOfALargeDocument, however little of it the kernel has room for, and delays nobody.
func TestASlowReaderGetsAllOfALargeDocument(t *testing.T) {
	a := newAPI(t, options{exams: []catalog.Exam{largeExam(testExam)}})
	want := a.get(examPath + "/overview").body
	request := "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.key + "\r\n\r\n"
	conn := a.dial(t, "tcp")
	reader := bufio.NewReader(conn)
	for range 2 { // it is answered again on the same connection
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Peek(1); err != nil { // the answer has begun
			t.Fatal(err)
		}
		if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK {
			t.Fatal(got.status)
		}
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != want {
			t.Fatalf("%d bytes that are not the %d of the document, %v", len(body), len(want), err)
		}
		_ = got.Body.Close()
	}
}

// TestWhoNeverReadsIsCut after the time for writing.
func TestWhoNeverReadsIsCut(t *testing.T) {
	a := newAPI(t, options{exams: []catalog.Exam{largeExam(testExam)}, config: httpapi.Config{WriteTimeout: 100 * time.Millisecond}})
	conn := a.dial(t, "tcp")
	if _, err := io.WriteString(conn, "GET "+examPath+"/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+a.key+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	postgrestest.Eventually(t, "the request is answered", func() bool {
		return a.metric("examprep_http_requests_total", map[string]string{"operation": "getExamOverview", "status": "2xx"}) == 1
	})
	if err := a.stop(); err != nil {
		t.Errorf("the connection outlasts the time for its answer: %v", err)
	}
}

// largeExam is an exam whose overview is larger than what a socket takes unread.
func largeExam(key string) catalog.Exam {
	exam := sampleExam(key)
	exam.Sections[0].Skills = slices.Repeat([]string{strings.Repeat("patience ", 30)}, 1000)
	exam.Sections = slices.Repeat(exam.Sections, 20)
	return exam
}
