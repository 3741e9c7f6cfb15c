package httpapi_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// TestABodyIsReadForThoseWhoMayPassAlone: there is no memory for any body here, and none comes to its end. Whoever is
// refused, or asks for what takes no body, is answered as without one, at once, and then the connection ends.
func TestABodyIsReadForThoseWhoMayPassAlone(t *testing.T) {
	t.Parallel()
	const (
		length = "Content-Length: 16000\r\n\r\n"
		chunks = "Transfer-Encoding: chunked\r\n\r\n3e80\r\n"
	)
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
		{"a list", listLine + mine, http.StatusOK},
		{"no session", "POST /v1/developer/keys HTTP/1.1\r\nHost: x\r\n", http.StatusUnauthorized},
		{"no session for an optional body", "POST /v1/developer/keys/abc/rotate HTTP/1.1\r\nHost: x\r\n", http.StatusUnauthorized},
		{"another origin", "POST /v1/developer/keys HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n", http.StatusForbidden},
		{"a bad key", openLine + bad, http.StatusUnauthorized},
		{"a good key", openLine + mine, http.StatusServiceUnavailable},
	} {
		for _, framing := range []string{length, chunks} {
			t.Run(c.name+", "+framing[:7], func(t *testing.T) {
				t.Parallel()
				httpapi.InBubble(t, httpapi.Config{MaxBodyMemory: 1}, httpapi.WithoutSessions, func(t *testing.T, b *httpapi.Bubble) {
					t.Helper()
					conn, began := b.Dial(), time.Now()
					send(conn, c.head+framing+strings.Repeat(" ", 10_000))
					got := readResponse(t, bufio.NewReader(conn), http.MethodGet)
					if got.status != c.status || !got.closes {
						t.Errorf("%d %s, closing: %v; want %d", got.status, short(got.body), got.closes, c.status)
					}
					check.Equal(t, time.Since(began), 0, "time until the answer")
					check.Equal(t, got.status == http.StatusServiceUnavailable, got.header.Get("Retry-After") != "", "%d with Retry-After %q", got.status, got.header.Get("Retry-After"))
					check.Equal(t, b.Metric("examprep_http_body_memory_bytes", nil), 0, "bytes of bodies held in the end")
				})
			})
		}
	}
}

// TestBodiesShareTheirMemory: while one body holds all that its client may have, the next finds none, and then there is some again.
func TestBodiesShareTheirMemory(t *testing.T) {
	t.Parallel()
	const most = 4 * 1040 // a client has a quarter: a body of 1000 bytes and one more, and not the 47 of openBody
	httpapi.InBubble(t, httpapi.Config{MaxBodyMemory: most}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		expectBytes := func(want float64, when string) {
			t.Helper()
			synctest.Wait()
			check.Equal(t, b.Metric("examprep_http_body_memory_bytes", nil), want, "bytes of bodies held %s", when)
		}
		exchange := func(request string) response {
			t.Helper()
			conn := b.Dial()
			defer conn.Close()
			send(conn, request)
			return readResponse(t, bufio.NewReader(conn), http.MethodGet)
		}
		holder := b.Dial()
		check.NoError(t, <-send(holder, openLine+mine+"Content-Length: 1000\r\n\r\n{"))
		expectBytes(1001, "while a body arrives")
		another := openLine + mine + withLength(openBody+strings.Repeat(" ", 100))
		got := exchange(another)
		if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || got.header.Get("Retry-After") == "" || !got.closes {
			t.Errorf("where no memory is left: %d %s %v", got.status, got.body, got.header)
		}
		exchange(listLine+mine+"\r\n").expect(t, http.StatusOK, "what takes no body")
		_ = holder.Close()
		expectBytes(0, "when its client has left")
		exchange(another).expect(t, http.StatusOK, "where there is memory again")
		expectBytes(0, "after the answer")
	})
}

// TestRefusedBodiesKeepTheirAnswer: a client that goes on sending gets to read why it is refused, and its request id.
func TestRefusedBodiesKeepTheirAnswer(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{MaxBodyBytes: 1 << 10}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn := b.Dial()
		head := openLine + "Host: x\r\nAuthorization: Bearer KEY\r\nX-Request-Id: mine-1\r\nContent-Length: 2000000\r\n\r\n"
		sent := send(conn, head+string(bytes.Repeat([]byte{' '}, 2_000_000)))
		got := readResponse(t, bufio.NewReader(conn), http.MethodPost)
		if got.status != http.StatusRequestEntityTooLarge || got.header.Get("X-Request-Id") != "mine-1" {
			t.Errorf("%d %v", got.status, got.header)
		}
		check.NoErrorf(t, <-sent, "the connection was reset under the client")
	})
}

// TestABodyOfFramesIsCut: a body can stay small while its framing grows without end.
func TestABodyOfFramesIsCut(t *testing.T) {
	t.Parallel()
	const most, lingering = 8<<10 + 2*(8<<10), 4 << 20 // bytes of a request with its framing, and after its refusal
	httpapi.InBubble(t, httpapi.Config{MaxBodyBytes: 1 << 10}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn := b.Dial()
		taken := make(chan int, 1)
		go func() {
			extension, sum := []byte(strings.Repeat("a", 1<<10)), 0
			for err := <-send(conn, openLine+mine+"Transfer-Encoding: chunked\r\n\r\n1;"); err == nil; {
				var n int
				n, err = conn.Write(extension)
				sum += n
			}
			taken <- sum
		}()
		readResponse(t, bufio.NewReader(conn), http.MethodPost).expect(t, http.StatusRequestEntityTooLarge, "a body of frames")
		if n := <-taken; n > most+lingering+16<<10 {
			t.Errorf("%d bytes of a chunk's extension were taken", n)
		}
	})
}

// TestBodyThatBreaksOffAfterContinueCostsOneRequest: of the key, before the client is told to go on. fasthttp forgets a request whose
// body never begins, with its headers, so its response has the limit of the client's address.
func TestBodyThatBreaksOffAfterContinueCostsOneRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for name, c := range map[string]struct{ body, limit string }{
		"before its first byte": {"", "1000000"},
		"after its first byte":  {"{", "120"},
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
			check.Equal(t, next.header.Get("RateLimit-Remaining"), "118", "requests left to the key")
		})
	}
}

// TestAskingToGoOnCostsOneRequest: the gate is asked once, before the client is told to go on.
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
