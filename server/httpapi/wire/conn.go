package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// lingerTime and lingerBytes bound what is read after a refusal. Closing at once would reset the connection, and the client
	// could not read its response. holdTime is how long the connection then stays open, unread, if its client still sends.
	lingerTime, lingerBytes, holdTime = 2 * time.Second, 4 << 20, 30 * time.Second
	// lingerBytesPerSecond bounds what is read of all of them together, lingerBurst at once, in pieces of lingerPiece bytes.
	lingerBytesPerSecond, lingerBurst, lingerPiece = 4 << 20, 256 << 10, 4 << 10
	// deadlineShare divides Config.WriteTimeout: a response can have a sixteenth less than that.
	deadlineShare = 16
)

// conn is a connection that knows whether it has a request.
type conn struct {
	net.Conn

	listener *Listener
	address  netip.Addr   // the client's: an IPv4 address, or the /64 of an IPv6 one; zero if it has none
	counted  bool         // MaxPerAddress limits it
	waits    atomic.Int64 // for what the connection waits, and since when: see busy
	proven   atomic.Bool  // the client has sent a request with a valid key
	lingers  atomic.Bool  // the client may be sending what is not read
	halved   bool         // Listener.lingering counts it; Listener.mu guards it

	// The goroutine that serves the connection owns what follows.

	served     bool      // a request was answered
	lacks      int64     // since when the rest of the request is waited for, in Unix nanoseconds; 0: not yet
	failure    error     // why no more can be read
	read       int       // bytes since the end of the last request
	bounded    bool      // a deadline was set for the next response
	writeUntil time.Time // the write deadline of Conn
}

// The states of a connection. It waits for a request since a time in Unix nanoseconds. While it waits for the rest of a request, and
// its client has not sent a valid key, its state is the time since when it does, negated.
const (
	busy     = 0  // from the first byte of a request to the end of its response
	replaced = -1 // the connection's place is given to another one, unless a request has begun at that moment
)

// hasRequest reports whether a request has begun in a state.
func hasRequest(state int64) bool { return state == busy || state < replaced }

var (
	// ErrTooLong reports a request without end: its body is within its limit, but its chunks are mostly framing.
	ErrTooLong = errors.New("the request is too long")
	// errNotReceived reports that the rest of a body has not arrived.
	errNotReceived = errors.New("the rest of the request body has not arrived")
)

// TrackState is fasthttp's ConnState hook.
func TrackState(c net.Conn, state fasthttp.ConnState) {
	switch own, ok := c.(*conn); {
	case !ok: // it is not of a Listener
	case state == fasthttp.StateActive && own.served: // its request may have arrived with the one before
		own.waits.Store(busy)
	case state == fasthttp.StateIdle:
		own.waits.Store(time.Now().UnixNano())
		own.served, own.read, own.lacks, own.bounded = true, 0, 0, false
	}
}

// Read implements net.Conn. It fails with ErrTooLong for a request without end, and with io.EOF for a connection that times out
// before its first byte: there is nothing to answer.
func (c *conn) Read(p []byte) (int, error) {
	if c.failure == nil && c.read > c.listener.cfg.MaxRead {
		c.failure = ErrTooLong
	}
	if c.failure != nil {
		return 0, c.failure
	}
	c.bounded = false
	n, err := c.readOrLose(p)
	if n > 0 && c.waits.Swap(busy) != busy && !c.served {
		// The deadline was set before the first byte, and a server that stops may have shortened it.
		_ = c.SetReadDeadline(time.Now().Add(c.listener.cfg.ReadTimeout))
	}
	c.read += n
	if err != nil {
		if !c.served && c.read == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF
		}
		c.failure = err
	}
	return n, err
}

// readOrLose reads. If it reads the rest of a request whose client has not sent a valid key, the connection can lose its place
// meanwhile. Nothing is read then, and fasthttp closes a connection without a response after net.ErrClosed.
func (c *conn) readOrLose(p []byte) (int, error) {
	if c.proven.Load() || c.waits.Load() != busy {
		return c.Conn.Read(p)
	}
	if c.lacks == 0 {
		c.lacks = time.Now().UnixNano()
	}
	c.waits.Store(-c.lacks)
	n, err := c.Conn.Read(p)
	if !c.waits.CompareAndSwap(-c.lacks, busy) {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. fasthttp sets a deadline before a handler's response, but not before "100 Continue" nor before the
// response to an unreadable request.
func (c *conn) Write(p []byte) (int, error) {
	if !c.bounded {
		if err := c.SetWriteDeadline(time.Now().Add(c.listener.cfg.WriteTimeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn. A deadline of an earlier response stays if it is almost as late: to set it again takes time.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.bounded = true
	if later := t.Sub(c.writeUntil); later >= 0 && later < c.listener.cfg.WriteTimeout/deadlineShare {
		return nil
	}
	c.writeUntil = t
	return c.Conn.SetWriteDeadline(t)
}

// expire ends the wait of an idle connection at t. A request that begins meanwhile has its full time.
func (c *conn) expire(t time.Time) {
	_ = c.SetReadDeadline(t)
	if hasRequest(c.waits.Load()) {
		_ = c.SetReadDeadline(time.Now().Add(c.listener.cfg.ReadTimeout))
	}
}

// replace ends the wait of a state, and reports whether it lasted until now.
func (c *conn) replace(state int64) bool {
	if !c.waits.CompareAndSwap(state, replaced) {
		return false
	}
	c.expire(time.Now())
	return true
}

// Prove notes that the request's client has a valid key: its connection is not replaced while it has a request, nor while others are
// that wait and have not sent a valid key.
func Prove(ctx *fasthttp.RequestCtx) {
	if own, ok := ctx.Conn().(*conn); ok && !own.proven.Load() {
		own.proven.Store(true)
	}
}

// ReadError returns why no more can be read of the request's connection, nil if it can.
func ReadError(ctx *fasthttp.RequestCtx) error {
	if own, ok := ctx.Conn().(*conn); ok {
		return own.failure
	}
	return nil
}

// Discard reads a body to its end if all of it has arrived. It reports whether it has.
func Discard(ctx *fasthttp.RequestCtx, stream io.Reader) bool {
	own, ok := ctx.Conn().(*conn)
	if !ok || own.failure != nil {
		return false
	}
	own.failure = errNotReceived
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return false
	}
	own.failure = nil
	return true
}

// LingerOnClose lets Close read on for a while: the client may still be sending.
func LingerOnClose(ctx *fasthttp.RequestCtx) {
	if own, ok := ctx.Conn().(*conn); ok {
		own.lingers.Store(true)
	}
}

// Close implements net.Conn. After LingerOnClose it reads on for a while. If the client still sends then, it also holds the
// connection, until an eviction at most: a client that is cut off comes back.
func (c *conn) Close() error {
	l := c.listener
	defer l.remove(c)
	if c.lingers.Load() {
		l.linger(c)
		if !l.readOn(c.Conn, time.Now().Add(lingerTime)) {
			select {
			case <-time.After(holdTime):
			case <-l.evictions:
			case <-l.ctx.Done():
			}
		}
	}
	return c.Conn.Close()
}

// readOn closes the sending half of a connection and reads on, so that the client can read its response. All connections share one
// rate of reading. It reports whether the client has left or is silent.
func (l *Listener) readOn(c net.Conn, until time.Time) bool {
	ctx, cancel := context.WithDeadline(l.ctx, until)
	defer cancel()
	if l.lingerRate.WaitN(ctx, 1) != nil {
		return false
	}
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil || c.SetReadDeadline(until) != nil {
		return true
	}
	for piece, left := make([]byte, lingerPiece), lingerBytes; left > 0; {
		n, err := c.Read(piece)
		if err != nil {
			return true
		}
		if left -= n; l.lingerRate.WaitN(ctx, n) != nil {
			return false
		}
	}
	return false
}
