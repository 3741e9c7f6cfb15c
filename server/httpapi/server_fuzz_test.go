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
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/apitest"
)

// FuzzServer sends any bytes over a socket: whatever comes back is HTTP that carries what every answer owes, never a
// fault of ours, and nothing is left behind. KEY in the bytes stands for the run's API key.
func FuzzServer(f *testing.F) {
	a := newAPI(f, apitest.Options{Network: "unix", Config: httpapi.Config{
		ReadTimeout: 2 * time.Second, MaxBodyBytes: 1 << 16, MaxHeaderBytes: 4 << 10,
		RefusalsPerSecond: 1 << 20, // a fuzzer is a flood of what is refused
	}})
	for _, requests := range [][]hostileRequest{hostileRequestLines(), hostileTargets(), hostileHeaders(), hostileBodies()} {
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
	<-done
	return received
}

func checkReceived(t *testing.T, sent, received []byte) {
	t.Helper()
	for reader := bufio.NewReader(bytes.NewReader(received)); ; {
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && reader.Buffered() == 0 {
				return
			}
			t.Fatalf("not HTTP: %v: %q", err, received)
		}
		if got.StatusCode == http.StatusContinue {
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
	// leakSettles is how long they may take to go; the fuzzer gives an input ten seconds.
	leakSettles = 5 * time.Second
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
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	deadline := time.NewTimer(leakSettles)
	defer deadline.Stop()
	for goroutines, heap := runtime.NumGoroutine(), heapInUse(); goroutines > l.goroutines+leakGoroutines || heap > l.heap+leakHeap; goroutines, heap = runtime.NumGoroutine(), heapInUse() {
		select {
		case <-look.C:
		case <-deadline.C:
			var profile strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
			t.Fatalf("after %d inputs: %d goroutines, %d at first; %d bytes, %d at first; %s", l.inputs, goroutines, l.goroutines, heap, l.heap, &profile)
		}
	}
}

// heapInUse is what nobody has given back.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
