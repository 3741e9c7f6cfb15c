package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
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
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.Address); !errors.Is(err, syscall.ECONNREFUSED) {
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
	check.Succeeds(t, <-stopped, "stopping")
}

// TestSilentConnectionsDoNotDelayTheStop: who has said nothing yet has no request in hand. Nothing is answered, and nobody
// is charged.
func TestSilentConnectionsDoNotDelayTheStop(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ReadTimeout: unhurried, ShutdownGrace: unhurried}})
	silent := a.dial(t, "tcp")
	if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK { // accepted later, so both are by now
		t.Fatal(got.status)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop() }()
	if said, err := io.ReadAll(silent); len(said) > 0 || err != nil {
		t.Errorf("a silent connection ends with %q, %v", said, err)
	}
	check.Succeeds(t, <-stopped, "stopping")
	check.Equal(t, a.metric("examprep_http_requests_total", map[string]string{"operation": "unreadable", "status": "4xx"}), 0, "requests charged")
}

func TestSilentConnectionsEndUnanswered(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ReadTimeout: 50 * time.Millisecond}})
	if said, err := io.ReadAll(a.dial(t, "tcp")); len(said) > 0 || err != nil {
		t.Errorf("a silent connection ends with %q, %v", said, err)
	}
}

func TestStoppingCutsWhatOutlastsTheGrace(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{ShutdownGrace: 50 * time.Millisecond}})
	release := a.holdAttempts()
	defer release()
	inHand := a.sendOpen(t)
	if err := a.Stop(); err == nil {
		t.Error("the server does not tell that it cut a request")
	}
	if _, err := inHand.ReadByte(); err == nil {
		t.Error("the connection lives on")
	}
}

func TestRequestsAreAcceptedWhileLoadBalancersTakeNote(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{DrainDelay: unhurried}})
	t.Cleanup(func() { _ = a.Listener.Close() }) // which ends the delay
	go func() { _ = a.Stop() }()
	testkit.Eventually(t, "answers close their connections", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.Address)
		check.NoErrorf(t, err, "not accepted")
		defer func() { _ = conn.Close() }()
		write(t, conn, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\n\r\n")
		return readResponse(t, bufio.NewReader(conn), http.MethodGet).closes
	})
	brief := a.variant(httpapi.Config{DrainDelay: 50 * time.Millisecond}, nil)
	check.Succeeds(t, brief.Stop(), "stopping")
}

func TestWorkIsEndedAtItsDeadline(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{HandleTimeout: 50 * time.Millisecond}})
	release := a.holdAttempts()
	defer release()
	got := a.post(examPath+"/mock-exams/open", `{"paper_id":"`+testPaper+`"}`)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
