package httpapi_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func (a *api) dial(t testing.TB, network string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, a.Address)
	check.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.NoError(t, conn.SetDeadline(time.Now().Add(waitFor)))
	return conn
}

// ask sends text on a connection of its own, does more while it waits, and returns where the answer comes. It begins anew
// where this process was held up for so long that the server's read time-out ended a connection that had said nothing yet.
func (a *api) ask(t testing.TB, text string, meanwhile func(conn net.Conn)) (answer *bufio.Reader) {
	t.Helper()
	testkit.Eventually(t, "a request begins in time", func() bool {
		conn := a.dial(t, "tcp")
		answer = bufio.NewReader(conn)
		if _, err := io.WriteString(conn, text); err != nil {
			return false
		}
		meanwhile(conn)
		_, err := answer.Peek(1)
		return err == nil
	})
	return answer
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

// keepQuiet is what a client does that sends no more.
func keepQuiet(net.Conn) {}

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

func TestBrokenHTTPIsRefusedInJSON(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxBodyBytes: 1 << 16, MaxHeaderBytes: 4 << 10}})
	const get = "GET /v1/exam-prep/list HTTP/1.1\r\n"
	post := "POST " + examPath + "/mock-exams/open HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + a.Key + "\r\n"
	for _, c := range []struct {
		name, sent string
		status     int
		code       string
	}{
		{"no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "bad_request"},
		{"no method", " / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"no version", "GET /\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"another protocol", "GET / SPDY/3\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"no host", get + "\r\n", 400, "bad_request"},
		{"two hosts", get + "Host: a\r\nHost: b\r\n\r\n", 400, "bad_request"},
		{"a bad header name", get + "Host: x\r\na : c\r\n\r\n", 400, "bad_request"},
		{"a bad header value", get + "Host: x\r\na: \x00\r\n\r\n", 400, "bad_request"},
		{"a line without colon", get + "Host: x\r\nabc\r\n\r\n", 400, "bad_request"},
		{"two lengths", post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "bad_request"},
		{"length and chunks", post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"},
		{"a negative length", post + "Content-Length: -2\r\n\r\n{}", 400, "bad_request"},
		{"an unknown transfer coding", post + "Transfer-Encoding: gzip\r\n\r\n{}", 400, "bad_request"},
		{"broken chunks", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", 400, "bad_request"},
		{"a long header", get + "Host: x\r\na: " + strings.Repeat("a", 5000) + "\r\n\r\n", 431, "request_header_fields_too_large"},
		{"a long target", "GET /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "request_header_fields_too_large"},
		{"many headers", get + "Host: x\r\n" + strings.Repeat("a: b\r\n", 1000) + "\r\n", 431, "request_header_fields_too_large"},
		{"a long body announced", post + "Content-Length: 1000000000\r\n\r\n{", 413, "payload_too_large"},
		{"a long body sent", post + "Content-Length: 70000\r\n\r\n" + strings.Repeat(" ", 70000), 413, "payload_too_large"},
		{"a long body in chunks", post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("fff\r\n"+strings.Repeat(" ", 4095)+"\r\n", 20), 413, "payload_too_large"},
		{"a long body asked for first", post + "Expect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n{", 413, "payload_too_large"},
		{"an exam key that is no encoding", "GET /v1/exam-prep/%zz/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key + "\r\n\r\n", 404, "exam_not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := a.dial(t, "tcp")
			write(t, conn, c.sent)
			reader := bufio.NewReader(conn)
			got := readResponse(t, reader, http.MethodGet)
			if got.status != c.status || got.code(t) != c.code {
				t.Errorf("%d %s, want %d %s", got.status, got.body, c.status, c.code)
			}
			if got.status == http.StatusNotFound {
				return
			}
			if !got.closes {
				t.Error("the connection is not announced to close")
			}
		})
	}
	a.get("/v1/exam-prep/list").expect(t, http.StatusOK, "a good request afterwards")
	if strings.Contains(a.Logs.String(), "panic") {
		t.Error("something panicked")
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

// TestRefusedBodiesKeepTheirAnswer: a client that goes on sending gets to read why it is refused, and its request id.
func TestRefusedBodiesKeepTheirAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxBodyBytes: 1 << 10}})
	conn := a.dial(t, "tcp")
	write(t, conn, "POST "+examPath+"/mock-exams/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+a.Key+"\r\nX-Request-Id: mine-1\r\nContent-Length: 2000000\r\n\r\n")
	for range 20 { // whatever happens to it
		if _, err := conn.Write(bytes.Repeat([]byte{' '}, 100_000)); err != nil {
			t.Fatalf("the connection was reset under the client: %v", err)
		}
	}
	got := readResponse(t, bufio.NewReader(conn), http.MethodPost)
	if got.status != http.StatusRequestEntityTooLarge || got.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// TestSlowClientsAreCut: whoever sends a request byte by byte is answered 408 at the read time-out and cut.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ReadTimeout: 100 * time.Millisecond}})
	for _, c := range []struct{ name, start string }{
		{"headers", "GET /v1/exam-prep/list HTTP/1.1\r\n"},
		{"body", "POST " + examPath + "/mock-exams/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key + "\r\nContent-Length: 10000\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := make(chan struct{})
			defer close(stop)
			answer := a.ask(t, c.start, func(conn net.Conn) {
				go func() { // one byte a tick, until the server has had enough
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-stop:
							return
						case <-tick.C:
							if _, err := conn.Write([]byte{'a'}); err != nil {
								return
							}
						}
					}
				}()
			})
			if got := readResponse(t, answer, http.MethodGet); got.status != http.StatusRequestTimeout || got.code(t) != "request_timeout" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{IdleTimeout: 50 * time.Millisecond}})
	conn := a.dial(t, "tcp")
	reader := bufio.NewReader(conn)
	write(t, conn, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\n\r\n")
	readResponse(t, reader, http.MethodGet)
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection ends with %v, want EOF", err)
	}
}

func TestOneConnectionTooManyIsAnswered(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxConnections: 2}})
	for range 2 {
		conn := a.dial(t, "tcp")
		write(t, conn, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\n\r\n")
		readResponse(t, bufio.NewReader(conn), http.MethodGet)
	}
	silent := readResponse(t, bufio.NewReader(a.dial(t, "tcp")), http.MethodGet)
	check.Equal(t, silent.status, http.StatusServiceUnavailable, "status of silence")
	got := readResponse(t, a.ask(t, listLine+mine+"\r\n", keepQuiet), http.MethodGet)
	if id := got.header.Get("X-Request-Id"); uuid.Validate(id) != nil {
		t.Errorf("the refusal bears the id %s", id)
	}
	if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
	if refused := a.metric("examprep_http_connections_refused_total", nil); refused < 2 {
		t.Errorf("%v refused connections are counted", refused)
	}
}

// More connections are refused here than stay open to be read; the others are closed once they are answered.
func TestEachOfManyConnectionsTooManyIsAnswered(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxConnections: 1}})
	held := a.dial(t, "tcp")
	write(t, held, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\n\r\n")
	readResponse(t, bufio.NewReader(held), http.MethodGet)
	surplus := make([]net.Conn, 400)
	for i := range surplus {
		surplus[i] = a.dial(t, "tcp")
	}
	for i, conn := range surplus {
		if got := readResponse(t, bufio.NewReader(conn), http.MethodGet); got.status != http.StatusServiceUnavailable {
			t.Fatalf("connection %d: status %d", i+1, got.status)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	conn := a.dial(t, "tcp")
	var sent strings.Builder
	for _, id := range []string{"one", "two", "three"} {
		sent.WriteString("GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + id + "\r\n\r\n")
	}
	write(t, conn, sent.String())
	reader := bufio.NewReader(conn)
	for _, id := range []string{"one", "two", "three"} {
		check.Equal(t, readResponse(t, reader, http.MethodGet).header.Get("X-Request-Id"), id, "request ID of the next answer")
	}
}

// TestABrokenRequestInLineBearsNoOtherId: what follows in the packet of a good request is known by nothing but itself.
func TestABrokenRequestInLineBearsNoOtherId(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	conn := a.dial(t, "tcp")
	write(t, conn, listLine+mine+"\r\n"+"GET / SPDY/3\r\nX-Request-Id: theirs\r\n\r\n")
	reader := bufio.NewReader(conn)
	readResponse(t, reader, http.MethodGet)
	got := readResponse(t, reader, http.MethodGet)
	if id := got.header.Get("X-Request-Id"); got.status != http.StatusBadRequest || !got.closes || uuid.Validate(id) != nil {
		t.Errorf("%d with the id %s, closing: %v", got.status, id, got.closes)
	}
}
