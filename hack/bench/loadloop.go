package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// answerRoom is what a connection has room for at first.
const answerRoom = 16 << 10

// loop is a load under way: one goroutine has all connections, and the kernel tells it where there is something to do. What
// the load costs is taken from the servers that it measures, and a goroutine for each connection cost as much as they.
type loop struct {
	load

	began, until time.Time

	epoll     int // a descriptor
	clients   []*client
	asking    int       // connections that have more to ask
	next      time.Time // when the next scheduled request is due; zero: when an answer has come
	latencies []time.Duration
}

// client is one connection.
type client struct {
	number, descriptor int

	n        int  // of the request under way or else the next
	waiting  bool // for the answer to it
	ended    bool
	due      time.Time // when the request under way was to be sent
	unsent   []byte
	received []byte
}

// receive takes what has come on a connection, and goes on to the next request after a whole answer.
func (p *loop) receive(c *client) error {
	for drained := false; !drained; {
		if len(c.received) == cap(c.received) {
			c.received = append(c.received, 0)[:len(c.received)]
		}
		room := c.received[len(c.received):cap(c.received)]
		n, err := unix.Read(c.descriptor, room)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		case n == 0:
			return fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF)
		}
		c.received = c.received[:len(c.received)+n]
		drained = n < len(room)
		status, body, whole, err := parseAnswer(c.received)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		if err := p.answered(c, status, body); err != nil || c.ended {
			return err
		}
	}
	return nil
}

// answered ends a request, and sends the next one unless that has a time of its own.
func (p *loop) answered(c *client, status int, body []byte) error {
	if !c.waiting {
		return errors.New("an answer that nobody asked for")
	}
	now := time.Now()
	p.latencies = append(p.latencies, now.Sub(c.due))
	switch {
	case status == p.refusal:
		p.refused.Add(1)
	case status != http.StatusOK:
		return &statusError{status, string(body)}
	case p.answer != nil:
		if err := p.answer(c.number, c.n, body); err != nil {
			return err
		}
	}
	c.received, c.waiting = c.received[:0], false
	c.n++
	if p.rate > 0 {
		return nil
	}
	return p.send(c, now)
}

// sendDue sends what is due on connections that wait for no answer, and notes when the next one is.
func (p *loop) sendDue() error {
	now := time.Now()
	p.next = time.Time{}
	for _, c := range p.clients {
		if c.waiting || c.ended {
			continue
		}
		due := now
		if p.rate > 0 {
			due = p.due(c)
		}
		if due.After(now) && due.Before(p.until) {
			if p.next.IsZero() || due.Before(p.next) {
				p.next = due
			}
			continue
		}
		if err := p.send(c, due); err != nil {
			return err
		}
	}
	return nil
}

// due is when the connection's next request is to be sent: connections take turns.
func (p *loop) due(c *client) time.Time {
	place := float64(c.n*p.width() + c.number)
	return p.began.Add(time.Duration(place / p.rate * float64(time.Second)))
}

// send sends a connection's next request, or ends the connection if it has none.
func (p *loop) send(c *client, due time.Time) error {
	var request []byte
	if due.Before(p.until) {
		request = p.request(c.number, c.n)
	}
	if request == nil {
		c.ended = true
		p.asking--
		return unix.Close(c.descriptor)
	}
	c.due, c.waiting, c.unsent = due, true, request
	return c.flush()
}

// flush sends what there is room for in the kernel.
func (c *client) flush() error {
	for len(c.unsent) > 0 {
		n, err := unix.Write(c.descriptor, c.unsent)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("send request: %w", err)
		default:
			c.unsent = c.unsent[n:]
		}
	}
	return nil
}

// parseAnswer reads an answer, if it is whole. All servers here write names canonically and tell the length of bodies.
func parseAnswer(text []byte) (status int, body []byte, whole bool, err error) {
	status, length, head, err := parseHead(text)
	if err != nil || head == 0 || len(text) < head+length {
		return 0, nil, false, err
	}
	if len(text) > head+length {
		return 0, nil, false, fmt.Errorf("%d bytes after an answer", len(text)-head-length)
	}
	return status, text[head:], true, nil
}

// parseHead reads an answer's head, which takes so many bytes; none while the head has not come to its end.
func parseHead(text []byte) (status, length, size int, err error) {
	const ends, lengthName = "\r\n\r\n", "\r\nContent-Length: "
	at := bytes.Index(text, []byte(ends))
	if at < 0 {
		return 0, 0, 0, nil
	}
	head := text[:at]
	if len(head) < 12 {
		return 0, 0, 0, fmt.Errorf("status line %q", head)
	}
	if status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return 0, 0, 0, fmt.Errorf("status line %q", head[:12])
	}
	_, value, found := bytes.Cut(head, []byte(lengthName))
	if !found {
		return 0, 0, 0, errors.New("an answer without a length")
	}
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
		return 0, 0, 0, fmt.Errorf("length %q", value)
	}
	return status, length, at + len(ends), nil
}
