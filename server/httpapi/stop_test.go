package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"examprep.dev/server/attempts"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const (
	// idleEnd is how long an idle connection stays open after the last accept of a server that stops.
	idleEnd = time.Second
	// looks is the time in which a server that stops notices twice what has become of its connections.
	looks = 200 * time.Millisecond
)

// holdAttempts locks the table of attempts, so that an open waits, until release.
func (a *api) holdAttempts() (release func()) {
	a.t.Helper()
	tx := testkit.Begin(a.t, a.Pool, "LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE")
	return func() { _ = tx.Rollback(context.Background()) }
}

func (a *api) sendOpen(t *testing.T) *bufio.Reader {
	t.Helper()
	conn := a.dial(t, "tcp")
	body := `{"paper_id":"` + testPaper + `"}`
	request := "POST " + examPath + "/mock-exams/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	write(t, conn, request)
	testkit.Eventually(t, "the request is in hand", func() bool { return a.metric("examprep_http_requests_in_flight", nil) == 1 })
	return bufio.NewReader(conn)
}

func TestStoppingFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	idle := a.dial(t, "tcp")
	idleReader := bufio.NewReader(idle)
	write(t, idle, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\n\r\n")
	readResponse(t, idleReader, http.MethodGet)
	release := a.holdAttempts()
	defer release()
	inHand := a.sendOpen(t)

	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop() }()
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection ends with %v, want EOF", err)
	}
	if conn, err := a.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a new connection: %v, %v", conn, err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("the server left a request behind: %v", err)
	default:
	}
	release()
	got := readResponse(t, inHand, http.MethodPost)
	if got.status != http.StatusOK || !got.closes {
		t.Errorf("the request in hand: %d %s %v", got.status, got.body, got.header)
	}
	check.Succeeds(t, testkit.Receive(t, stopped, "the server stops"), "stopping")
}

// TestSilentConnectionsDoNotDelayTheStop: who has said nothing yet has no request in hand. Nothing is answered, and nobody
// is charged.
func TestSilentConnectionsDoNotDelayTheStop(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		silent, began := b.Dial(), time.Now()
		go func() { _ = b.Stop() }()
		expectEnd(t, silent, began, idleEnd)
		check.Succeeds(t, b.Stop(), "stopping")
		if took := time.Since(began); took > idleEnd+looks {
			t.Errorf("the server stops after %s", took)
		}
		check.Equal(t, b.Metric("examprep_http_requests_total", map[string]string{"operation": "unreadable", "status": "4xx"}), 0, "requests charged")
	})
}

// TestIdleConnectionsHaveASecondMore: a request can be on its way when the server stops. It is served, and ends its connection.
func TestIdleConnectionsHaveASecondMore(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		var answers []*bufio.Reader
		var conns []net.Conn
		for range 2 {
			conns = append(conns, b.Dial())
			answers = append(answers, bufio.NewReader(conns[len(conns)-1]))
			send(conns[len(conns)-1], listLine+mine+"\r\n")
			readResponse(t, answers[len(answers)-1], http.MethodGet).expect(t, http.StatusOK, "a request before")
		}
		began := time.Now()
		go func() { _ = b.Stop() }()
		<-time.After(idleEnd - 1)
		send(conns[0], listLine+mine+"\r\n")
		got := readResponse(t, answers[0], http.MethodGet)
		if got.status != http.StatusOK || !got.closes {
			t.Errorf("a request that was on its way: %d, closing: %v", got.status, got.closes)
		}
		expectEnd(t, answers[1], began, idleEnd)
		check.Succeeds(t, b.Stop(), "stopping")
	})
}

// stubborn are attempts whose history ends when release is closed, whatever becomes of its context.
type stubborn struct {
	httpapi.Attempts
	release <-chan struct{}
}

func (s stubborn) History(context.Context, keys.Identity, attempts.HistoryRequest) (attempts.History, error) {
	<-s.release
	return attempts.History{Attempts: []attempts.Summary{}}, nil
}

// TestStoppingCutsWhatOutlastsTheGrace: the server says so, and does not wait for a handler that never returns.
func TestStoppingCutsWhatOutlastsTheGrace(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(release <-chan struct{}) httpapi.Attempts{
		"with its context": func(<-chan struct{}) httpapi.Attempts { return endlessWork{} },
		"never":            func(release <-chan struct{}) httpapi.Attempts { return stubborn{release: release} },
	} {
		t.Run("the handler returns "+name, func(t *testing.T) {
			t.Parallel()
			var release chan struct{}
			replace := func(deps *httpapi.Deps) {
				release = make(chan struct{}) // in the bubble
				deps.Attempts = work(release)
			}
			config := httpapi.Config{HandleTimeout: testkit.Patience} // more than the grace
			httpapi.InBubble(t, config, replace, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				defer close(release)
				expectCut(t, b)
			})
		})
	}
}

// expectCut stops the server while it works on a request, which does not end in time.
func expectCut(t *testing.T, b *httpapi.Bubble) {
	t.Helper()
	conn := b.Dial()
	check.NoError(t, <-send(conn, historyRequest))
	began := time.Now()
	cut := make(chan time.Duration, 1)
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		cut <- time.Since(began)
	}()
	if err := b.Stop(); err == nil {
		t.Error("the server does not tell that it cut a request")
	}
	if took := time.Since(began); took < shutdownLimit || took > shutdownLimit+idleEnd+2*looks {
		t.Errorf("the server stops after %s", took)
	}
	if after := <-cut; after < shutdownLimit || after > shutdownLimit+looks {
		t.Errorf("the connection is cut after %s", after)
	}
}

// TestRequestsAreAcceptedWhileLoadBalancersTakeNote: for so long new connections are served, and each answer closes its own.
func TestRequestsAreAcceptedWhileLoadBalancersTakeNote(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Second
	httpapi.InBubble(t, httpapi.Config{DrainDelay: delay}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		began := time.Now()
		go func() { _ = b.Stop() }()
		<-time.After(delay - 1)
		conn := b.Dial()
		send(conn, listLine+mine+"\r\n")
		if got := readResponse(t, bufio.NewReader(conn), http.MethodGet); got.status != http.StatusOK || !got.closes {
			t.Errorf("%d, closing: %v", got.status, got.closes)
		}
		if b.Refuses() {
			t.Error("the server accepts no connection before the delay is over")
		}
		check.Succeeds(t, b.Stop(), "stopping")
		if took := time.Since(began); took < delay || took > delay+looks || !b.Refuses() {
			t.Errorf("the server stops after %s, accepts connections: %v", took, !b.Refuses())
		}
	})
}
