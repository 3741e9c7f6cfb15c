package testkit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
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
	// Answer is the rule: n is 1 for the first request. If it is nil, the answer is Status.
	Answer func(n int, w http.ResponseWriter, r *http.Request)
	// Status is the status of answers without a rule, 200 at first.
	Status atomic.Int32
}

// StartReceiver starts a receiver.
func StartReceiver(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *Receiver {
	t.Helper()
	r := &Receiver{Arrived: make(chan Arrival, 4096), Answer: answer}
	r.Status.Store(http.StatusOK)
	var count atomic.Int64
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		n := int(count.Add(1))
		r.Arrived <- Arrival{request.Header.Clone(), body}
		if r.Answer != nil {
			r.Answer(n, w, request)
			return
		}
		w.WriteHeader(int(r.Status.Load()))
	}))
	t.Cleanup(r.Close)
	return r
}

// Next waits for a request and removes it.
func (r *Receiver) Next(t testing.TB) Arrival {
	t.Helper()
	return Receive(t, r.Arrived, "a request arrives")
}

// CAPEM returns the certificate that the receiver's clients must trust.
func (r *Receiver) CAPEM() []byte { return CAPEM(r.Server) }
