package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/attempts"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// Production's limits, as the comments of httpapi.Config have them.
const (
	readLimit     = 15 * time.Second
	handleLimit   = 10 * time.Second
	writeLimit    = 30 * time.Second
	idleLimit     = 75 * time.Second
	shutdownLimit = 20 * time.Second
)

// send writes text in the background: the server can answer before it has read all.
func send(conn io.Writer, text string) (sent <-chan error) {
	done := make(chan error, 1)
	go func() {
		var err error
		if text != "" { // a write of nothing would wait for a reader, too
			_, err = io.WriteString(conn, text)
		}
		done <- err
	}()
	return done
}

// expectEnd checks that the connection ends, without another answer, when so much time has passed since.
func expectEnd(t *testing.T, from io.Reader, since time.Time, after time.Duration) {
	t.Helper()
	said, err := io.ReadAll(from)
	if len(said) > 0 || err != nil {
		t.Errorf("the connection ends with %q, %v", said, err)
	}
	check.Equal(t, time.Since(since), after, "time until the connection ends")
}

// TestSlowRequestIsAnswered408: a request that is sent byte by byte has the read time-out from its first byte on.
func TestSlowRequestIsAnswered408(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, start string }{
		{"headers", listLine},
		{"body", openLine + mine + "Content-Length: 10000\r\n\r\n"},
		{"chunks", openLine + mine + "Transfer-Encoding: chunked\r\n\r\n1000\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				conn := b.Dial()
				<-time.After(readLimit - time.Second) // it is accepted long before its first byte
				began := time.Now()
				go func() {
					for err := <-send(conn, c.start); err == nil; _, err = conn.Write([]byte{'a'}) {
						<-time.After(70 * time.Millisecond)
					}
				}()
				answers := bufio.NewReader(conn)
				got := readResponse(t, answers, http.MethodGet)
				if got.status != http.StatusRequestTimeout || got.code(t) != "request_timeout" || !got.closes {
					t.Errorf("%d %s", got.status, got.body)
				}
				check.Equal(t, time.Since(began), readLimit, "time until the answer")
				expectEnd(t, answers, began, readLimit)
			})
		})
	}
}

// TestATimeoutInChunksIsATimeout: wherever in a chunk's frame a client stops, it is told that it was too slow, and by
// its id; who may not pass is not waited for.
func TestATimeoutInChunksIsATimeout(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "5", "5;a", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\na: b"} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				for key, want := range map[string]struct {
					status int
					after  time.Duration
				}{"KEY": {http.StatusRequestTimeout, readLimit}, "guessed": {http.StatusUnauthorized, 0}} {
					conn, began := b.Dial(), time.Now()
					send(conn, openLine+strings.ReplaceAll(mine, "KEY", key)+"Transfer-Encoding: chunked\r\n\r\n"+body)
					got := readResponse(t, bufio.NewReader(conn), http.MethodPost)
					if got.status != want.status || got.header.Get("X-Request-Id") != "mine" || !got.closes {
						t.Errorf("%d %s %v", got.status, got.body, got.header)
					}
					check.Equal(t, time.Since(began), want.after, "time until the answer to the key %s", key)
				}
			})
		})
	}
}

// TestIdleConnectionsAreClosed: after an answer a connection waits so long for its next request, and after nothing at all as
// long as for a request.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn := b.Dial()
		answers := bufio.NewReader(conn)
		for range 2 {
			<-time.After(readLimit - 1)
			send(conn, listLine+mine+"\r\n")
			readResponse(t, answers, http.MethodGet).expect(t, http.StatusOK, "a request in time")
		}
		<-time.After(idleLimit - 1)
		send(conn, listLine+mine+"\r\n")
		readResponse(t, answers, http.MethodGet).expect(t, http.StatusOK, "a request at the end of the wait")
		expectEnd(t, answers, time.Now(), idleLimit)
		silent := b.Dial()
		expectEnd(t, silent, time.Now(), readLimit)
	})
}

// TestEveryAnswerHasATimeOfItsOwn: an answer that fasthttp writes without setting a deadline is not cut by the deadline of
// the answer before it.
func TestEveryAnswerHasATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	const asking = openLine + mine + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	for _, c := range []struct {
		name, second string
		status       []int
		after        time.Duration
	}{
		{"asks to go on", asking, []int{http.StatusContinue}, 0},
		{"cannot be read", "GET / SPDY/3\r\nHost: x\r\n\r\n", []int{http.StatusBadRequest}, 0},
		{"does not end", "GET / HT", []int{http.StatusRequestTimeout}, readLimit},
		{"asks to go on, and does not", asking, []int{http.StatusContinue, http.StatusRequestTimeout}, readLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				conn := b.Dial()
				answers := bufio.NewReader(conn)
				askOn(t, conn, answers, listLine+mine+"\r\n", http.StatusOK)
				<-time.After(idleLimit - 1) // the first answer's time is over
				began := time.Now()
				askOn(t, conn, answers, c.second, c.status...)
				check.Equal(t, time.Since(began), c.after, "time until the last answer")
			})
		})
	}
}

// askOn sends a request and reads as many answers as statuses are wanted.
func askOn(t *testing.T, conn net.Conn, answers *bufio.Reader, request string, statuses ...int) {
	t.Helper()
	send(conn, request)
	for _, want := range statuses {
		got, err := http.ReadResponse(answers, nil)
		check.NoErrorf(t, err, "no answer, want %d", want)
		_, err = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		if err != nil || got.StatusCode != want {
			t.Fatalf("%s, %v, want %d", got.Status, err, want)
		}
	}
}

// TestClientThatNeverReadsIsCut: its connection ends with the time for writing.
func TestClientThatNeverReadsIsCut(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn, began := b.Dial(), time.Now()
		check.NoError(t, <-send(conn, listLine+mine+"\r\n"))
		if _, err := conn.Write([]byte{'a'}); !errors.Is(err, io.ErrClosedPipe) { // nothing reads it before the answer is written
			t.Errorf("the connection ends with %v", err)
		}
		check.Equal(t, time.Since(began), writeLimit, "time until the connection ends")
	})
}

// endlessWork are attempts whose history ends with its context.
type endlessWork struct{ httpapi.Attempts }

func (endlessWork) History(ctx context.Context, _ keys.Identity, _ attempts.HistoryRequest) (attempts.History, error) {
	<-ctx.Done()
	return attempts.History{}, ctx.Err()
}

func withEndlessWork(deps *httpapi.Deps) { deps.Attempts = endlessWork{} }

const historyRequest = "GET " + examPath + "/mock-exams/history HTTP/1.1\r\n" + mine + "\r\n"

// TestWorkIsEndedAtItsDeadline: the handler's context ends, and the answer is 503.
func TestWorkIsEndedAtItsDeadline(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, withEndlessWork, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn, began := b.Dial(), time.Now()
		send(conn, historyRequest)
		got := readResponse(t, bufio.NewReader(conn), http.MethodGet)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		check.Equal(t, time.Since(began), handleLimit, "time until the answer")
	})
}

// TestWorkInPostgresEndsAtItsDeadline: a statement that waits for a lock is no exception. Whatever the machine does in this
// time, the deadline is over before the lock is free.
func TestWorkInPostgresEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{HandleTimeout: 50 * time.Millisecond}})
	release := a.holdAttempts()
	defer release()
	got := a.post(examPath+"/mock-exams/open", openBody)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
