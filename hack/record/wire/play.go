package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// End is how a connection ended.
type End string

// The ends of a connection.
const (
	Kept      End = "kept"      // the server answered another request on it
	Closed    End = "closed"    // the server closed it
	Reset     End = "reset"     // the server reset it
	Silent    End = "silent"    // the server neither answered nor closed it in time
	Cut       End = "cut"       // the server closed it within a response
	Malformed End = "malformed" // what came is not HTTP
	Left      End = "left"      // the client closed it
)

const (
	// probe is the request that finds out whether a connection is still usable.
	probe    = "GET /v1/record-probe HTTP/1.1\r\nHost: probe\r\nX-Request-Id: " + probeID + "\r\n\r\n"
	probeID  = "record-probe"
	pause    = 40 * time.Millisecond // separates two segments, so that they arrive separately
	standard = 10 * time.Second
)

// Segment is a part of what the client sends.
type Segment struct {
	Bytes []byte
	// AfterContinue sends the segment only after a response with status 100, and drops it after any other response.
	AfterContinue bool
}

// Conversation is what happens on one connection.
type Conversation struct {
	Source    netip.Addr // local address to connect from
	Segments  []Segment
	Responses int           // final responses to wait for before the connection is probed
	Head      bool          // requests are HEAD: responses have no body
	HalfClose bool          // the client closes its sending side after the last segment
	Leave     bool          // the client closes the connection without reading
	Unprobed  bool          // wait for the server to close the connection
	Limit     time.Duration // for the whole conversation; 0: 10 s
}

// Outcome is what the server did.
type Outcome struct {
	Responses []Response
	End       End
}

// Play holds one conversation. An error means that the connection could not be opened.
func Play(ctx context.Context, address string, c Conversation) (Outcome, error) {
	limit := c.Limit
	if limit == 0 {
		limit = standard
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: c.Source.AsSlice()}}
	dialed, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return Outcome{}, fmt.Errorf("connect to %s: %w", address, err)
	}
	defer func() { _ = dialed.Close() }()
	tcp, ok := dialed.(*net.TCPConn)
	if !ok {
		return Outcome{}, fmt.Errorf("connect to %s: not TCP", address)
	}
	deadline, _ := ctx.Deadline()
	if err := tcp.SetDeadline(deadline); err != nil {
		return Outcome{}, fmt.Errorf("set the deadline: %w", err)
	}
	p := player{conn: tcp, reader: bufio.NewReader(tcp), conversation: c, answered: make(chan int, 1)}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.send(ctx)
	}()
	if c.Leave {
		<-sent
		return Outcome{End: Left}, nil
	}
	p.receive()
	cancel() // ends send if it still waits
	_ = tcp.SetDeadline(time.Now())
	<-sent
	return p.outcome, nil
}

type player struct {
	conn         *net.TCPConn
	reader       *bufio.Reader
	conversation Conversation
	answered     chan int // the code of the first response
	outcome      Outcome
}

// send writes the segments. A failed write is not reported: the responses show the cause.
func (p *player) send(ctx context.Context) {
	for i, segment := range p.conversation.Segments {
		if segment.AfterContinue {
			select {
			case code := <-p.answered:
				if code != 100 {
					return
				}
			case <-ctx.Done():
				return
			}
		} else if i > 0 && !wait(ctx, pause) {
			return
		}
		if _, err := p.conn.Write(segment.Bytes); err != nil {
			return
		}
	}
	if p.conversation.HalfClose {
		_ = p.conn.CloseWrite()
	}
}

// wait reports whether ctx outlived the time.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// receive reads the expected responses and then probes the connection.
func (p *player) receive() {
	closes := false
	for final := 0; final < p.conversation.Responses && !closes; {
		response, err := readResponse(p.reader, p.conversation.Head)
		if response.Status != "" {
			p.keep(response)
		}
		if err != nil {
			p.outcome.End = endOf(err)
			return
		}
		if !response.interim() {
			final++
			closes = response.Closes()
		}
	}
	if !closes && !p.conversation.HalfClose && !p.conversation.Unprobed {
		_, _ = p.conn.Write([]byte(probe)) // the read below shows a failure
	}
	for { // up to the response to the probe, or the end
		response, err := readResponse(p.reader, false)
		if err == nil && response.Get("X-Request-Id") == probeID {
			p.outcome.End = Kept
			return
		}
		if response.Status != "" {
			p.keep(response)
		}
		if err != nil {
			p.outcome.End = endOf(err)
			return
		}
	}
}

func (p *player) keep(response Response) {
	p.outcome.Responses = append(p.outcome.Responses, response)
	select {
	case p.answered <- response.Code():
	default:
	}
}

func endOf(err error) End {
	var network net.Error
	var malformed *MalformedError
	switch {
	case errors.Is(err, io.EOF):
		return Closed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Cut
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.As(err, &malformed):
		return Malformed
	case errors.As(err, &network) && network.Timeout():
		return Silent
	default:
		return Malformed
	}
}
