package testkit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Arrival is a request as a receiver got it.
type Arrival struct {
	Header http.Header
	Body   []byte
}

// Receiver is an HTTPS server for webhooks. It keeps requests and answers them by a rule.
type Receiver struct {
	*httptest.Server
	// Arrived has the requests, oldest first.
	Arrived chan Arrival
	// Answer is the rule: n is 1 for the first request. If it is nil, the receiver returns 200.
	Answer func(n int, w http.ResponseWriter, r *http.Request)
}

// StartReceiver starts a receiver.
func StartReceiver(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *Receiver {
	t.Helper()
	r := &Receiver{Arrived: make(chan Arrival, 4096), Answer: answer}
	var count atomic.Int64
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		n := int(count.Add(1))
		r.Arrived <- Arrival{request.Header.Clone(), body}
		if r.Answer != nil {
			r.Answer(n, w, request)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// Status returns a rule that answers with a status.
func Status(status int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// Next waits for a request and removes it.
func (r *Receiver) Next(t testing.TB) Arrival {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case arrival := <-r.Arrived:
		return arrival
	case <-deadline.C:
		t.Fatal("nothing arrived")
		return Arrival{}
	}
}

// CAPEM returns the certificate that the receiver's clients must trust.
func (r *Receiver) CAPEM() []byte { return CAPEM(r.Server) }
