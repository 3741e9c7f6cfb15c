package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// connections is how many clients ask at once, each its next request when it has the answer to the last.
	connections = 64
	// answerTime bounds one answer.
	answerTime = 10 * time.Second
)

// load is what a set of clients asks of one server.
type load struct {
	// addresses are of that server's pods; connections are spread over them.
	addresses []string
	// request returns the bytes of a connection's nth request; nil: this connection has no more.
	request func(connection, n int) []byte
	// answer takes a body, which is valid during the call; nil: nobody wants it. Its error ends the run.
	answer func(connection, n int, body []byte) error
	// rate, if not 0, is how many requests/s are sent in all, by a schedule; latency counts from the scheduled time.
	rate float64
	// clients is how many connections there are; 0 for the usual number.
	clients int
	// refusal is a status that is as good as 200; refused counts its answers. 0: none is.
	refusal int
	refused *atomic.Int64
}

// width is how many connections there are.
func (l load) width() int {
	if l.clients == 0 {
		return connections
	}
	return l.clients
}

// drive asks for a duration, or until there is no more to ask. Any answer but 200 ends it with an error.
func (l load) drive(ctx context.Context, duration time.Duration) (operations int, latencies []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, duration+answerTime)
	defer cancel()
	p, err := newLoop(l, duration)
	if err != nil {
		return 0, nil, err
	}
	defer p.close()
	err = p.run(ctx)
	return len(p.latencies), p.latencies, err
}

// wait waits on the timer, and reports whether to go on.
func wait(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer.Reset(d)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// statusError is an answer that was not 200.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("answer %d: %s", e.status, e.body) }

// getRequest and postRequest are the bytes of a request with a key.
func getRequest(host, path, key string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + key + "\r\n\r\n")
}

func postRequest(host, path, key string, body []byte) []byte {
	head := "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + key +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// during measures a load: it is driven while the watch runs.
func (s *stack) during(ctx context.Context, l load, duration time.Duration, processes ...string) (sample, error) {
	w, err := s.watchWithClient(processes...)
	if err != nil {
		return sample{}, err
	}
	operations, latencies, err := l.drive(ctx, duration)
	if err != nil {
		return sample{}, err
	}
	result, err := w.stop()
	result.operations, result.latencies = operations, latencies
	return result, err
}
