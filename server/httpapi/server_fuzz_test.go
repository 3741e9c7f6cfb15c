package httpapi_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// FuzzServer sends any bytes over a socket: whatever comes back is HTTP that carries what every answer owes, never a
// fault of ours, and nothing is left behind. KEY in the bytes stands for the run's API key.
func FuzzServer(f *testing.F) {
	a := newAPI(f, apitest.Options{Network: "unix", Config: httpapi.Config{
		MaxBodyBytes: 1 << 16, MaxHeaderBytes: 4 << 10,
		RefusalsPerSecond: 1 << 20, // a fuzzer is a flood of what is refused
	}})
	for _, requests := range hostileRequests() {
		for _, request := range requests {
			if len(request.sent) < 8<<10 { // longer ones make slow ancestors
				f.Add([]byte(request.sent))
			}
		}
	}
	for _, head := range []string{
		"GET /v1/exam-prep/list?country=spain&country_code=br HTTP/1.1\r\n",
		"GET " + examPath + "/overview HTTP/1.1\r\nIf-None-Match: *\r\nAccept-Encoding: br;q=0.3, gzip\r\n",
		"HEAD " + examPath + "/mock-exams HTTP/1.0\r\nConnection: keep-alive\r\n",
		"GET " + examPath + "/mock-exams/history?limit=5&offset=1&learner_id=%C3%A9 HTTP/1.1\r\nX-Forwarded-For: 1.2.3.4\r\n",
		listLine + mine + "\r\n" + listLine,
	} {
		f.Add([]byte(head + mine + "\r\n"))
	}
	for path, body := range map[string]string{
		"/open": `{"paper_id":"` + testPaper + `","question_limit":3,"learner_id":"x"}`, "/questions": `{"paper_id":"` + testPaper + `","question_offset":1e0}`,
		"/submit": `{"attempt_id":"0197a3a2-0000-7000-8000-000000000000","answers":{"1:1":"A"},"status":"abandoned"}`,
	} {
		post := "POST " + examPath + "/mock-exams" + path + " HTTP/1.1\r\n" + mine
		f.Add([]byte(post + withLength(body)))
		f.Add([]byte(post + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body)))
	}
	document(f) // now: reading it takes longer than a fuzzer on a busy machine waits for one input
	leaks := leakCheck{api: a}
	f.Fuzz(func(t *testing.T, sent []byte) {
		checkReceived(t, sent, a.exchange(t, bytes.ReplaceAll(sent, []byte("KEY"), []byte(a.Key))))
		leaks.after(t)
	})
	leaks.end(f)
}

func (a *api) exchange(t *testing.T, sent []byte) []byte {
	t.Helper()
	conn := a.dial(t, "unix")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Write(sent)
		if half, ok := conn.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
	}()
	received, err := io.ReadAll(conn)
	if err != nil && len(received) == 0 && !errors.Is(err, net.ErrClosed) {
		t.Fatalf("no answer and no end: %v", err)
	}
	_ = conn.Close()
	testkit.Receive(t, done, "the input is sent")
	return received
}

// checkReceived checks each answer. There is at least one, unless the bytes are only empty lines: a request does not begin then.
func checkReceived(t *testing.T, sent, received []byte) {
	t.Helper()
	final := 0
	for reader := bufio.NewReader(bytes.NewReader(received)); ; final++ {
		if _, err := reader.Peek(1); err != nil {
			if final == 0 && len(bytes.Trim(sent, "\r\n")) > 0 {
				t.Fatalf("no answer to %q, only %q", sent, received)
			}
			return
		}
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("not HTTP: %v: %q", err, received)
		}
		if got.StatusCode == http.StatusContinue {
			final--
			continue
		}
		if got.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("%d for %q", got.StatusCode, sent)
		}
		if bytes.Contains(sent, []byte("HEAD")) {
			return // an answer without a body cannot be told from one with
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatalf("half an answer: %v: %q", err, received)
		}
		_ = got.Body.Close()
		checkAnswer(t, http.MethodGet, "", response{got.StatusCode, got.Header, string(body), got.Close})
	}
}

// A leakCheck holds goroutines and memory against what they were once everything had been used.
type leakCheck struct {
	api        *api
	inputs     int
	goroutines int
	heap       uint64
}

const (
	// leakEvery is how many inputs lie between two looks.
	leakEvery = 2000
	// leakGoroutines and leakHeap are what may come and go: workers of fasthttp, connections to Postgres, the document
	// that compressions are kept of, what the fuzzer itself holds.
	leakGoroutines = 32
	leakHeap       = 32 << 20
)

// after counts an input, and fails the test when what it and those before it needed is not given back.
func (l *leakCheck) after(t *testing.T) {
	t.Helper()
	if l.inputs++; l.inputs%leakEvery != 0 {
		return
	}
	l.api.Logs.Reset()
	if l.inputs == leakEvery {
		l.goroutines, l.heap = runtime.NumGoroutine(), heapInUse()
		return
	}
	l.expect(t, "goroutines and memory are given back", func() bool {
		return runtime.NumGoroutine() <= l.goroutines+leakGoroutines && heapInUse() <= l.heap+leakHeap
	})
}

// end stops the server, and fails the test when a goroutine of it is left.
func (l *leakCheck) end(f *testing.F) {
	f.Helper()
	check.Succeeds(f, l.api.Stop(), "stopping")
	l.expect(f, "the server's goroutines end", func() bool { return !serving(goroutines()) })
}

// serving reports whether a function of the server is in a profile of goroutines. Names of files do not count: this goroutine is of
// a file in the server's folder.
func serving(profile string) bool {
	for line := range strings.Lines(profile) {
		columns := strings.Fields(line) // #, address, function, position
		if len(columns) < 3 || columns[0] != "#" {
			continue
		}
		for _, part := range []string{"examprep.dev/server/httpapi.", "examprep.dev/server/httpapi/", "fasthttp.(*Server)"} {
			if strings.Contains(columns[2], part) {
				return true
			}
		}
	}
	return false
}

func (l *leakCheck) expect(t testing.TB, what string, condition func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("after %d inputs: %d goroutines, %d at first; %d bytes, %d at first; %s", l.inputs,
				runtime.NumGoroutine(), l.goroutines, heapInUse(), l.heap, goroutines())
		}
	}()
	testkit.Eventually(t, what, condition)
}

// goroutines are the stacks of all goroutines.
func goroutines() string {
	var profile strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	return profile.String()
}

// heapInUse is what nobody has given back.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
