package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// connections is how many clients ask at once, each its next request when it has the answer to the last.
	connections = 64
	// answerTime bounds one answer.
	answerTime = 10 * time.Second
)

// load is what a set of clients asks of one server.
type load struct {
	address string
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
	began := time.Now()
	runs := make([]client, l.width())
	group, ctx := errgroup.WithContext(ctx)
	for i := range runs {
		runs[i] = client{load: l, number: i, began: began, until: began.Add(duration)}
		group.Go(func() error { return runs[i].run(ctx) })
	}
	err = group.Wait()
	for i := range runs {
		operations += len(runs[i].latencies)
		latencies = append(latencies, runs[i].latencies...)
	}
	return operations, latencies, err
}

// client is one connection.
type client struct {
	load

	number       int
	began, until time.Time
	latencies    []time.Duration
	body         bytes.Buffer
}

func (c *client) run(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	reader := bufio.NewReaderSize(conn, 16<<10)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for n := 0; ; n++ {
		due := time.Now()
		if c.rate > 0 {
			due = c.due(n)
			if !wait(ctx, timer, time.Until(due)) {
				return context.Cause(ctx)
			}
		}
		request := []byte(nil)
		if due.Before(c.until) {
			request = c.request(c.number, n)
		}
		if request == nil {
			return nil
		}
		if _, err := conn.Write(request); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		if err := c.read(reader, n); err != nil {
			return err
		}
		c.latencies = append(c.latencies, time.Since(due))
	}
}

// due is when the nth request of this connection is to be sent: connections take turns.
func (c *client) due(n int) time.Time {
	place := float64(n*c.width() + c.number)
	return c.began.Add(time.Duration(place / c.rate * float64(time.Second)))
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

// read takes one answer off the connection.
func (c *client) read(reader *bufio.Reader, n int) error {
	status, length, err := readHead(reader)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	refused := status == c.refusal
	if refused {
		c.refused.Add(1)
	}
	if refused || c.answer == nil && status == 200 {
		_, err := reader.Discard(length)
		return err
	}
	c.body.Reset()
	if _, err := io.CopyN(&c.body, reader, int64(length)); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if status != 200 {
		return &statusError{status, c.body.String()}
	}
	return c.answer(c.number, n, c.body.Bytes())
}

// statusError is an answer that was not 200.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("answer %d: %s", e.status, e.body) }

// readHead reads an answer's head. All servers here write names canonically and tell the length of bodies.
func readHead(reader *bufio.Reader) (status, length int, err error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 {
		return 0, 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("status line %q", line)
	}
	length = -1
	for {
		if line, err = reader.ReadSlice('\n'); err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, 0, fmt.Errorf("length %q", value)
			}
		}
	}
	if length < 0 {
		return 0, 0, errors.New("an answer without a length")
	}
	return status, length, nil
}

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
