package httpapi_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"examprep.dev/server/attempts"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/check"
)

// places is how many connections a server of these tests has at most.
const places = 3

// isOpen reports whether the server keeps a connection.
func isOpen(t *testing.T, conn net.Conn) bool {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		_, _ = conn.Read(make([]byte, 1))
		close(ended)
	}()
	synctest.Wait()
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// serve sends a request on a connection and returns the status.
func serve(t *testing.T, conn net.Conn, request string) int {
	t.Helper()
	send(conn, request)
	defer synctest.Wait() // until the connection waits for the next request
	return readResponse(t, bufio.NewReader(conn), http.MethodGet).status
}

// keepPlace opens a connection that is not replaced: its client has sent a valid key and begun another request.
func keepPlace(t *testing.T, b *httpapi.Bubble) {
	t.Helper()
	conn := b.Dial()
	check.Equal(t, serve(t, conn, listLine+mine+"\r\n"), http.StatusOK, "status of a client with a key")
	check.NoError(t, <-send(conn, "G"))
}

// wrongBody is the head of a request with a wrong key, whose body does not arrive.
const wrongBody = openLine + "Host: x\r\nAuthorization: Bearer guessed\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"

// TestSilentConnectionsMakeRoom: clients hold all places and send nothing, a part of a request, or no valid key. Each new client is
// served.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	begin := func(sent string) func(t *testing.T, b *httpapi.Bubble) {
		return func(t *testing.T, b *httpapi.Bubble) { t.Helper(); check.NoError(t, <-send(b.Dial(), sent)) }
	}
	for name, hold := range map[string]func(t *testing.T, b *httpapi.Bubble){
		"silent":             func(_ *testing.T, b *httpapi.Bubble) { b.Dial() },
		"with a wrong key":   func(t *testing.T, b *httpapi.Bubble) { t.Helper(); _, _ = ask(t, b) },
		"with a valid key":   func(t *testing.T, b *httpapi.Bubble) { t.Helper(); serve(t, b.Dial(), listLine+mine+"\r\n") },
		"with one byte":      begin("G"),
		"with half a header": begin(listLine + "Host: x\r\nAuthorization: Bearer KEY\r\nA: b"),
		"without its body":   begin(wrongBody),
		"with a wrong key and one byte": func(t *testing.T, b *httpapi.Bubble) {
			t.Helper()
			conn, status := ask(t, b)
			if status != http.StatusUnauthorized {
				t.Fatalf("a client with a wrong key is answered %d", status)
			}
			check.NoError(t, <-send(conn, "G"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{MaxConnections: places}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				for range 2 * places {
					hold(t, b)
					synctest.Wait()
				}
				for range 2 * places {
					check.Equal(t, serve(t, b.Dial(), listLine+mine+"\r\n"), http.StatusOK, "status of a new client")
				}
				check.Equal(t, b.Metric("examprep_http_connections_refused_total", nil), 0, "refused connections")
			})
		})
	}
}

// slowHistory are attempts whose history takes until it is let go.
type slowHistory struct {
	httpapi.Attempts

	goes chan struct{}
}

func (s slowHistory) History(context.Context, keys.Identity, attempts.HistoryRequest) (attempts.History, error) {
	<-s.goes
	return attempts.History{Attempts: []attempts.Summary{}}, nil
}

// TestAConnectionWithoutAValidKeyIsReplacedFirst: it is the one that waits longest for a request or for the rest of one. Then it is
// the one with a key that waits longest. A connection that has sent a valid key and begun a request is never replaced.
func TestAConnectionWithoutAValidKeyIsReplacedFirst(t *testing.T) {
	t.Parallel()
	const valid = listLine + mine + "\r\n"
	httpapi.InBubble(t, httpapi.Config{MaxConnections: places}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		known, begun := b.Dial(), b.Dial()
		check.Equal(t, serve(t, known, valid), http.StatusOK, "status of a client with a key")
		check.NoError(t, <-send(begun, "GET /v1/exam-prep/li"))
		<-time.After(time.Second)
		silent := b.Dial()
		<-time.After(time.Second)
		next := b.Dial()
		if isOpen(t, begun) || !isOpen(t, silent) {
			t.Error("the connection that has begun a request and waits longest is open, or the silent one is not")
		}
		check.Equal(t, serve(t, next, valid), http.StatusOK, "status of a second client with a key")
		last := b.Dial()
		if isOpen(t, silent) || !isOpen(t, known) {
			t.Error("the silent connection is open, or one with a key is not")
		}
		check.Equal(t, serve(t, last, valid), http.StatusOK, "status of a third client with a key")
		check.NoError(t, <-send(next, "GET /v1/exam-prep/li"))
		check.NoError(t, <-send(last, "G"))
		check.Equal(t, serve(t, b.Dial(), valid), http.StatusOK, "status of a client in the place of one that waits")
		if isOpen(t, known) {
			t.Error("the connection that waits is open")
		}
		check.Equal(t, serve(t, next, "st HTTP/1.1\r\n"+mine+"\r\n"), http.StatusOK, "status of the request that had begun")
	})
}

// TestARequestWithAValidKeyKeepsItsPlace: while its body arrives, also after "100 Continue", while it is answered, and while the next
// one arrives.
func TestARequestWithAValidKeyKeepsItsPlace(t *testing.T) {
	t.Parallel()
	history := "GET " + examPath + "/mock-exams/history HTTP/1.1\r\n" + mine + "\r\n"
	for name, c := range map[string]struct {
		sent  string
		first string // of the answer to it, if there is one
		rest  string
	}{
		"its body arrives":               {openLine + mine + withLength(openBody)[:len(withLength(openBody))-1], "", "}"},
		"its body is asked for":          {openLine + mine + "Expect: 100-continue\r\n" + strings.TrimSuffix(withLength(openBody), openBody), "HTTP/1.1 100", openBody},
		"it is answered":                 {history, "", ""},
		"the next one arrives behind it": {listLine + mine + "\r\nG", "HTTP/1.1 200", "ET /v1/exam-prep/list HTTP/1.1\r\n" + mine + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var goes chan struct{}
			slow := func(deps *httpapi.Deps) { // in the bubble
				goes = make(chan struct{})
				deps.Attempts = slowHistory{deps.Attempts, goes}
			}
			httpapi.InBubble(t, httpapi.Config{MaxConnections: 1}, slow, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				conn := b.Dial()
				reader := bufio.NewReader(conn)
				send(conn, c.sent)
				if c.first != "" {
					line, err := reader.Peek(len(c.first))
					check.NoError(t, err)
					check.Equal(t, string(line), c.first, "first answer")
				}
				if strings.HasSuffix(c.first, "200") {
					readResponse(t, reader, http.MethodGet)
				}
				synctest.Wait()
				check.Equal(t, serve(t, b.Dial(), ""), http.StatusServiceUnavailable, "status of another client")
				close(goes)
				send(conn, c.rest)
				check.Equal(t, readResponse(t, reader, http.MethodGet).status, http.StatusOK, "status of the request")
			})
		})
	}
}
