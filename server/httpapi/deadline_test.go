package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestEveryAnswerHasATimeOfItsOwn: an answer that fasthttp writes without setting a deadline is not cut by the deadline of
// the answer before it.
func TestEveryAnswerHasATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	inner := testkit.Listen(t)
	stop, served := startServer(t, Config{WriteTimeout: limit, ReadTimeout: 2 * limit}, openGate{}, inner)
	t.Cleanup(func() {
		stop()
		check.Succeeds(t, <-served, "stopping")
	})
	const asking = "POST /v1/exam-prep/xx-sample/mock-exams/open HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	for _, c := range []struct {
		name, second string
		// late tells that the second request is sent when the first answer's time is over.
		late   bool
		status []int
	}{
		{"asks to go on", asking, true, []int{http.StatusContinue}},
		{"cannot be read", "GET / SPDY/3\r\nHost: x\r\n\r\n", true, []int{http.StatusBadRequest}},
		{"does not end", "GET / HT", false, []int{http.StatusRequestTimeout}},
		{"asks to go on, and does not", asking, false, []int{http.StatusContinue, http.StatusRequestTimeout}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
			check.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			answers := bufio.NewReader(conn)
			askOn(t, conn, answers, overviewRequest, http.StatusOK)
			if c.late {
				over := time.NewTimer(limit + limit/4) // its deadline was set before it came
				<-over.C
			}
			askOn(t, conn, answers, c.second, c.status...)
		})
	}
}

// askOn sends a request and reads as many answers as statuses are wanted.
func askOn(t *testing.T, conn net.Conn, answers *bufio.Reader, request string, statuses ...int) {
	t.Helper()
	_, err := io.WriteString(conn, request)
	check.NoError(t, err)
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
