package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const guessedRequest = "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guessed\r\n\r\n"

// refusals opens connections at once, sends one request with a bad key on each, and returns how many of the responses announce
// the end of their connection.
func (a *api) refusals(connections int) (closing int) {
	a.t.Helper()
	return a.flood(guessedRequest, http.StatusUnauthorized, connections)
}

// flood is refusals of any request.
func (a *api) flood(request string, status, connections int) (closing int) {
	a.t.Helper()
	conns := make([]net.Conn, connections)
	for i := range conns {
		conns[i] = a.dial(a.t, "tcp")
	}
	for _, conn := range conns {
		_, err := io.WriteString(conn, request)
		check.NoError(a.t, err)
	}
	for _, conn := range conns {
		got := readResponse(a.t, bufio.NewReader(conn), http.MethodGet)
		if got.status != status {
			a.t.Errorf("%d %s, want %d", got.status, got.body, status)
		}
		if got.closes {
			closing++
		}
		_ = conn.Close()
	}
	return closing
}

// TestAFloodOfRefusalsWaits: one refusal a second is answered at once, one waits for its turn, and the others lose their
// connection. A client with a valid key notices nothing.
func TestAFloodOfRefusalsWaits(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{RefusalsPerSecond: 1}})
	if closing := a.refusals(30); closing < 6 {
		t.Errorf("of thirty connections that are refused at once %d are ended", closing)
	}
	if held := a.metric("examprep_http_refusals_held_total", nil); held < 1 {
		t.Errorf("%v refusals waited", held)
	}
	held := a.metric("examprep_http_refusals_held_total", nil)
	for range 20 {
		if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK || got.closes {
			t.Fatalf("a good key is answered %d", got.status)
		}
	}
	check.Equal(t, a.metric("examprep_http_refusals_held_total", nil), held, "answers to a good key that waited")
}

// TestOnlyStrangersAreHeld: a client with a valid key, or one that the gate does not refuse, never waits.
func TestOnlyStrangersAreHeld(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	limited := a.NewKey("slow", keys.TierSpec{Requests: 1, Period: time.Hour, Burst: 1})
	if got := a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + limited}); got.status != http.StatusOK {
		t.Fatalf("the key's only request: %d %s", got.status, got.body)
	}
	const host = " HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		ends          bool // its connection ends for another reason
	}{
		{"a key without an allowance left", "GET /v1/exam-prep/list" + host + "Authorization: Bearer " + limited + "\r\n\r\n", http.StatusTooManyRequests, false},
		{"an unknown path", "GET /nowhere" + host + "\r\n", http.StatusNotFound, false},
		{"a method that is not answered", "DELETE /docs" + host + "\r\n", http.StatusMethodNotAllowed, false},
		{"no HTTP", "nonsense\r\n\r\n", http.StatusBadRequest, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := a.variant(httpapi.Config{RefusalsPerSecond: 1}, nil)
			if closing := a.flood(c.request, c.status, 10); closing != 0 && !c.ends {
				t.Errorf("%d connections are ended", closing)
			}
			check.Equal(t, a.metric("examprep_http_refusals_held_total", nil), 0, "refusals that waited")
		})
	}
}

func TestTrustedProxiesAreNotHeld(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{
		RefusalsPerSecond: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}})
	check.Equal(t, a.refusals(10), 0, "ended connections of a trusted proxy")
	check.Equal(t, a.metric("examprep_http_refusals_held_total", nil), 0, "refusals that waited")
}

func TestOneAddressHasSoManyConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		status  int
	}{
		{"a client", nil, http.StatusServiceUnavailable},
		{"a trusted proxy", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxConnectionsPerAddress: 2, TrustedProxies: c.trusted}})
			ask := func() (net.Conn, int) {
				conn := a.dial(t, "tcp")
				write(t, conn, guessedRequest)
				return conn, readResponse(t, bufio.NewReader(conn), http.MethodGet).status
			}
			first, _ := ask()
			_, _ = ask()
			third, status := ask()
			check.Equal(t, status, c.status, "status of the third connection")
			_, _ = first.Close(), third.Close()
			testkit.Eventually(t, "a place becomes free", func() bool {
				next, status := ask()
				_ = next.Close()
				return status == http.StatusUnauthorized
			})
		})
	}
}

// TestRefusedClientsThatGoOnSendingMakeRoom: they have all places, and hold them unread, until a new client connects.
func TestRefusedClientsThatGoOnSendingMakeRoom(t *testing.T) {
	t.Parallel()
	const places = 3
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxConnections: places}})
	for range places {
		conn := a.dial(t, "tcp")
		write(t, conn, openLine+"Host: x\r\nAuthorization: Bearer guessed\r\nContent-Length: 1000000000\r\n\r\n")
		go func() {
			piece := make([]byte, 64<<10)
			for err := error(nil); err == nil; {
				_, err = conn.Write(piece)
			}
		}()
	}
	testkit.Eventually(t, "a new client gets a place", func() bool {
		conn := a.dial(t, "tcp")
		defer conn.Close()
		write(t, conn, guessedRequest)
		return readResponse(t, bufio.NewReader(conn), http.MethodGet).status == http.StatusUnauthorized
	})
}

// TestABodyOfFramesIsCut: a body can stay small while its framing grows without end.
func TestABodyOfFramesIsCut(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxBodyBytes: 1 << 10}})
	conn := a.dial(t, "tcp")
	write(t, conn, openLine+strings.ReplaceAll(mine, "KEY", a.Key)+"Transfer-Encoding: chunked\r\n\r\n1;")
	const most = 256
	taken := make(chan int, 1)
	go func() {
		extension, n := []byte(strings.Repeat("a", 1<<20)), 0
		for err := error(nil); err == nil && n < most; n++ {
			_, err = conn.Write(extension)
		}
		taken <- n
	}()
	readResponse(t, bufio.NewReader(conn), http.MethodPost).expect(t, http.StatusRequestEntityTooLarge, "a body of frames")
	if n := <-taken; n == most {
		t.Errorf("%d MB of a chunk's extension were taken", n)
	}
}
