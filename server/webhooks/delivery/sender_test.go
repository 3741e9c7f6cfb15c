package delivery

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// senderTo returns a sender that trusts a server's certificate and may go to all of IPv4's loopback.
func senderTo(t testing.TB, server *httptest.Server) *sender {
	t.Helper()
	authority := testkit.CAPEM(server)
	s, err := newSender(loopback, authority, patience, time.Now)
	check.NoError(t, err)
	return s
}

// belated answers 200 when the try's time is over: what net/http hands out when a receiver answers that it was hung up on,
// and its answer overtakes the end of the connection.
type belated struct{}

func (belated) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestAnAnswerAfterTheTimeIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	s, err := newSender(nil, nil, 20*time.Millisecond, time.Now)
	check.NoError(t, err)
	s.allowing.transport = belated{}
	came := s.post(t.Context(), post{managed: true, url: "https://receiver.example/", eventID: uuid.New(), body: []byte("{}")})
	if came.delivered() || came.failure != "timeout" {
		t.Errorf("outcome %+v, want a time-out", came)
	}
}
