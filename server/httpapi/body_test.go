package httpapi_test

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// unhurried is a read time-out that no test waits for: what is answered before it did not wait for the request's end.
const unhurried = 10 * time.Minute

// TestABodyIsReadForThoseWhoMayPassAlone: there is no memory for any body here, and none comes to its end. Whoever is
// refused, or asks for what takes no body, is answered as without one, at once, and then the connection ends.
func TestABodyIsReadForThoseWhoMayPassAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.variant(httpapi.Config{MaxBodyMemory: 1, ReadTimeout: unhurried}, nil)
	const (
		length = "Content-Length: 1048576\r\n\r\n"
		chunks = "Transfer-Encoding: chunked\r\n\r\nfffff\r\n"
	)
	good := strings.ReplaceAll(mine, "KEY", a.Key)
	bad := strings.ReplaceAll(mine, "KEY", "guessed")
	for _, c := range []struct {
		name, head string
		status     int
	}{
		{"an unknown route", "POST /nowhere HTTP/1.1\r\nHost: x\r\n", http.StatusNotFound},
		{"an unknown route beside the exams", "POST /v1/exam-prep/nowhere HTTP/1.1\r\n" + bad, http.StatusUnauthorized},
		{"an unknown method", "PUT /docs HTTP/1.1\r\nHost: x\r\n", http.StatusMethodNotAllowed},
		{"a page", "GET /docs/nowhere HTTP/1.1\r\nHost: x\r\n", http.StatusNotFound},
		{"options", "OPTIONS * HTTP/1.1\r\nHost: x\r\n", http.StatusNoContent},
		{"a list", listLine + good, http.StatusOK},
		{"no session", "POST /v1/developer/keys HTTP/1.1\r\nHost: x\r\n", http.StatusUnauthorized},
		{"no session for an optional body", "POST /v1/developer/keys/abc/rotate HTTP/1.1\r\nHost: x\r\n", http.StatusUnauthorized},
		{"another origin", "POST /v1/developer/keys HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n", http.StatusForbidden},
		{"a bad key", openLine + bad, http.StatusUnauthorized},
		{"a good key", openLine + good, http.StatusServiceUnavailable},
	} {
		for _, framing := range []string{length, chunks} {
			t.Run(c.name+", "+framing[:7], func(t *testing.T) {
				conn := a.dial(t, "tcp")
				write(t, conn, c.head+framing+strings.Repeat(" ", 100_000))
				got := readResponse(t, bufio.NewReader(conn), http.MethodGet)
				if got.status != c.status || !got.closes {
					t.Errorf("%d %s, closing: %v; want %d", got.status, short(got.body), got.closes, c.status)
				}
				check.Equal(t, got.status == http.StatusServiceUnavailable, got.header.Get("Retry-After") != "", "%d with Retry-After %q", got.status, got.header.Get("Retry-After"))
			})
		}
	}
	check.Equal(t, a.metric("examprep_http_body_memory_bytes", nil), 0, "bytes of bodies held in the end")
}

// TestBodiesShareTheirMemory: while one body holds all that there is, the next finds none, and then there is some again.
func TestBodiesShareTheirMemory(t *testing.T) {
	t.Parallel()
	const most = 1040 // a body of 1000 bytes and one more, and not the 47 of openBody
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxBodyMemory: most, ReadTimeout: unhurried}})
	held := func() float64 { return a.metric("examprep_http_body_memory_bytes", nil) }
	holder := a.dial(t, "tcp")
	write(t, holder, openLine+strings.ReplaceAll(mine, "KEY", a.Key)+"Content-Length: 1000\r\n\r\n{")
	testkit.Eventually(t, "a body is held", func() bool { return held() == 1001 })
	body := openBody + strings.Repeat(" ", 100)
	got := a.post(examPath+"/mock-exams/open", body)
	if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || got.header.Get("Retry-After") == "" || !got.closes {
		t.Errorf("where no memory is left: %d %s %v", got.status, got.body, got.header)
	}
	a.get("/v1/exam-prep/list").expect(t, http.StatusOK, "what takes no body")
	_ = holder.Close()
	testkit.Eventually(t, "the body is given up", func() bool { return held() == 0 })
	a.post(examPath+"/mock-exams/open", body).expect(t, http.StatusOK, "where there is memory again")
	testkit.Eventually(t, "the body is given up after its answer", func() bool { return held() == 0 })
}

// TestATimeoutInChunksIsATimeout: wherever in a chunk's frame a client stops, it is told that it was too slow, and by
// its id; who may not pass is not waited for.
func TestATimeoutInChunksIsATimeout(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ReadTimeout: 100 * time.Millisecond}})
	for _, body := range []string{"", "5", "5;a", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\na: b"} {
		t.Run(body, func(t *testing.T) {
			begun := openLine + strings.ReplaceAll(mine, "KEY", a.Key) + "Transfer-Encoding: chunked\r\n\r\n" + body
			got := readResponse(t, a.ask(t, begun, keepQuiet), http.MethodPost)
			if got.status != http.StatusRequestTimeout || got.header.Get("X-Request-Id") != "mine" || !got.closes {
				t.Errorf("%d %s %v", got.status, got.body, got.header)
			}
		})
	}
}

// TestExpectContinueIsAnsweredBeforeTheGate: whatever a request expects, it is told to go on, and then refused for the
// same reasons in the same order. Its connection serves a next request if its whole body has come.
func TestExpectContinueIsAnsweredBeforeTheGate(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ReadTimeout: unhurried}})
	with := func(key string) string { return openLine + strings.ReplaceAll(mine, "KEY", key) }
	limited := a.NewKey("slow", keys.TierSpec{Requests: 1, Period: time.Hour, Burst: 1})
	if got := a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + limited}); got.status != http.StatusOK {
		t.Fatalf("the key's only request: %d %s", got.status, got.body)
	}
	for _, c := range []struct {
		name, head string
		length     string
		status     int
		closes     bool
	}{
		{"a bad key and a long body", with("guessed"), "2000000", http.StatusUnauthorized, true},
		{"a bad key", with("guessed"), "20", http.StatusUnauthorized, false},
		{"a key without an allowance left", with(limited), "20", http.StatusTooManyRequests, false},
		{"a good key and a long body", with(a.Key), "2000000", http.StatusRequestEntityTooLarge, true},
		{"a good key", with(a.Key), "20", http.StatusBadRequest, false},
	} {
		for _, expect := range []string{"Expect: 100-continue\r\n", "expect: 100-CONTINUE\r\n"} {
			t.Run(c.name, func(t *testing.T) {
				conn := a.dial(t, "tcp")
				reader := bufio.NewReader(conn)
				write(t, conn, c.head+expect+"Content-Length: "+c.length+"\r\n\r\n")
				readContinue(t, reader)
				write(t, conn, strings.Repeat(" ", 20))
				got := readResponse(t, reader, http.MethodPost)
				if got.status != c.status || got.closes != c.closes || got.header.Get("X-Request-Id") != "mine" {
					t.Errorf("%d %v, closing: %v; want %d, %v", got.status, got.header, got.closes, c.status, c.closes)
				}
				if c.closes {
					return
				}
				write(t, conn, listLine+strings.ReplaceAll(mine, "KEY", a.Key)+"\r\n")
				check.Equal(t, readResponse(t, reader, http.MethodGet).status, http.StatusOK, "status of the next request")
			})
		}
	}
	a.get("/v1/exam-prep/list").expect(t, http.StatusOK, "a good request afterwards")
}

// TestBodyThatBreaksOffAfterContinueCostsOneRequest: the gate is asked once. A request whose body never begins cannot be read, so
// it counts against the client's address.
func TestBodyThatBreaksOffAfterContinueCostsOneRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for name, c := range map[string]struct{ body, limit, left string }{
		"before its first byte": {"", "1000000", "119"},
		"after its first byte":  {"{", "120", "118"},
	} {
		t.Run(name, func(t *testing.T) {
			key := a.NewKey(strings.ReplaceAll(name, " ", "-"), keys.TierSpec{Requests: 120, Period: time.Hour})
			conn := a.dial(t, "tcp")
			reader := bufio.NewReader(conn)
			write(t, conn, openLine+strings.ReplaceAll(mine, "KEY", key)+"Expect: 100-continue\r\nContent-Length: 20\r\n\r\n")
			readContinue(t, reader)
			write(t, conn, c.body)
			if half, ok := conn.(*net.TCPConn); !ok || half.CloseWrite() != nil {
				t.Fatalf("a %T cannot end its body", conn)
			}
			if got := readResponse(t, reader, http.MethodPost); got.status != http.StatusBadRequest || got.header.Get("RateLimit-Limit") != c.limit {
				t.Errorf("%d %s %v", got.status, got.body, got.header)
			}
			next := a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key})
			check.Equal(t, next.header.Get("RateLimit-Remaining"), c.left, "requests left to the key")
		})
	}
}

// TestAskingToGoOnCostsOneRequest: the gate is asked once, after the client was told to go on.
func TestAskingToGoOnCostsOneRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	key := a.NewKey("told", keys.TierSpec{Requests: 120, Period: time.Hour})
	conn := a.dial(t, "tcp")
	reader := bufio.NewReader(conn)
	for _, remaining := range []string{"119", "118"} {
		write(t, conn, openLine+strings.ReplaceAll(mine, "KEY", key)+"Expect: 100-continue\r\nContent-Length: "+strconv.Itoa(len(openBody))+"\r\n\r\n")
		readContinue(t, reader)
		write(t, conn, openBody)
		got := readResponse(t, reader, http.MethodPost)
		if got.status != http.StatusOK || got.closes || got.header.Get("RateLimit-Remaining") != remaining {
			t.Errorf("%d %s %v, want %s left", got.status, got.body, got.header, remaining)
		}
	}
}
