package httpapi_test

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"examprep.dev/server/httpapi"
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

// TestSilentConnectionsMakeRoom: clients hold all places and send nothing, or no valid key. Each new client is served.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(t *testing.T, b *httpapi.Bubble){
		"silent":           func(_ *testing.T, b *httpapi.Bubble) { b.Dial() },
		"with a wrong key": func(t *testing.T, b *httpapi.Bubble) { t.Helper(); _, _ = ask(t, b) },
		"with a valid key": func(t *testing.T, b *httpapi.Bubble) { t.Helper(); serve(t, b.Dial(), listLine+mine+"\r\n") },
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

// TestAConnectionWithoutAValidKeyIsReplacedFirst: then the one with a key that waits longest, and never one with a request.
func TestAConnectionWithoutAValidKeyIsReplacedFirst(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{MaxConnections: places}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		begun, known, silent := b.Dial(), b.Dial(), b.Dial()
		check.NoError(t, <-send(begun, "GET /v1/exam-prep/li"))
		check.Equal(t, serve(t, known, listLine+mine+"\r\n"), http.StatusOK, "status of a client with a key")
		next := b.Dial()
		check.NoError(t, <-send(next, "G"))
		if isOpen(t, silent) {
			t.Error("the silent connection is open")
		}
		check.NoError(t, <-send(b.Dial(), "G"))
		if isOpen(t, known) {
			t.Error("the connection that waits is open")
		}
		check.Equal(t, serve(t, b.Dial(), ""), http.StatusServiceUnavailable, "status of a client when all others have begun a request")
		check.Equal(t, serve(t, begun, "st HTTP/1.1\r\n"+mine+"\r\n"), http.StatusOK, "status of the request that had begun")
	})
}
