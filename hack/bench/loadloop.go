package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopLook is how often a loop without events looks whether it is to stop.
	stopLook = 100 * time.Millisecond
	// answerRoom is what a connection has room for at first.
	answerRoom = 16 << 10
)

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

func newLoop(l load, duration time.Duration) (*loop, error) {
	p := &loop{load: l, epoll: -1}
	if err := p.open(); err != nil {
		p.close()
		return nil, err
	}
	p.began = time.Now()
	p.until = p.began.Add(duration)
	return p, nil
}

func (p *loop) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for i := range p.width() {
		c := &client{number: i, received: make([]byte, 0, answerRoom)}
		if c.descriptor, err = connect(p.addresses[i%len(p.addresses)]); err != nil {
			return err
		}
		p.clients = append(p.clients, c)
		if err := p.watch(c.descriptor, i, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
			return err
		}
	}
	p.asking = len(p.clients)
	return nil
}

// watch has epoll tell of changes to a descriptor.
func (p *loop) watch(descriptor, number int, events uint32) error {
	event := &unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(number)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, descriptor, event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// connect opens a connection to an address of this machine.
func connect(address string) (descriptor int, err error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() {
		return -1, fmt.Errorf("address %q is not one of IPv4 with a port", address)
	}
	descriptor, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		unix.Connect(descriptor, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
		unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(descriptor, true),
	)
	if err != nil {
		_ = unix.Close(descriptor)
		return -1, fmt.Errorf("connect to %s: %w", address, err)
	}
	return descriptor, nil
}

func (p *loop) close() {
	for _, c := range p.clients {
		if !c.ended {
			_ = unix.Close(c.descriptor)
		}
	}
	if p.epoll >= 0 {
		_ = unix.Close(p.epoll)
	}
}

// run asks until no connection has more to ask.
func (p *loop) run(ctx context.Context) error {
	events := make([]unix.EpollEvent, len(p.clients))
	if err := p.sendDue(); err != nil {
		return err
	}
	for p.asking > 0 {
		n, err := p.await(events)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, event := range events[:max(n, 0)] {
			if err := p.serve(p.clients[event.Fd], event.Events); err != nil {
				return err
			}
		}
		if p.rate > 0 {
			if err := p.sendDue(); err != nil {
				return err
			}
		}
	}
	return nil
}

// await returns how many events there are once there are some, or a request is due. Its time is finer than the
// milliseconds of epoll_wait, and it needs no timer: setting one and reading it took a third of what the load costs.
func (p *loop) await(events []unix.EpollEvent) (n int, err error) {
	if p.next.IsZero() {
		return unix.EpollWait(p.epoll, events, int(stopLook.Milliseconds()))
	}
	rest := unix.NsecToTimespec(min(max(0, time.Until(p.next)), stopLook).Nanoseconds())
	if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.epoll), Events: unix.POLLIN}}, &rest, nil); err != nil {
		return 0, err
	}
	return unix.EpollWait(p.epoll, events, 0)
}

// serve does what an event says can be done on a connection.
func (p *loop) serve(c *client, events uint32) error {
	if c.ended {
		return nil
	}
	if events&unix.EPOLLOUT != 0 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return nil
	}
	return p.receive(c)
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
