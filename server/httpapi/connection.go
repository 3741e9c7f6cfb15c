package httpapi

import (
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
	// lingerTime and lingerBytes bound how long a refused client may go on sending before it is cut. Closing at once
	// would reset the connection and take the answer from under the client's nose.
	lingerTime  = 2 * time.Second
	lingerBytes = 4 << 20
)

// conn is a connection that knows whether a request is in hand.
type conn struct {
	net.Conn
	listener *listener
	// busy says that a request is in hand, if only its first byte. A connection is not busy before that.
	busy atomic.Bool
	// refused is set when the client may still be sending what nobody will read.
	refused atomic.Bool
	// peer is the address at the other end, as peerAddress has it; it never changes.
	peer netip.Addr
	// source is whose connections it is counted with, if any; it never changes.
	source netip.Addr

	// What follows belongs to the goroutine that serves the connection.

	// served says that a request was answered on this connection.
	served bool
	// failure is why nothing more can be read.
	failure error
	// read is how many bytes came since the last request's end.
	read int
}

var (
	// errReadEnough is a request that has no end: a body within its bounds, but in chunks that consist of their frames.
	errReadEnough = errors.New("the request is larger than any")
	// errNotHere is the rest of a body that nobody waits for.
	errNotHere = errors.New("the rest of the request body has not come")
)

// trackState is fasthttp's ConnState hook. fasthttp calls a new connection active before it has said anything; then it
// becomes busy with its first byte. fasthttp sets a write deadline before a handler's answer only, not before "100
// Continue" nor before the refusal of what it cannot read; on a connection that was idle for longer those would find the
// earlier answer's deadline expired.
func trackState(c net.Conn, state fasthttp.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	if state == fasthttp.StateActive && own.served { // its request may have come along with the one before, unseen by Read
		own.busy.Store(true)
	}
	if state == fasthttp.StateIdle {
		own.busy.Store(false)
		own.served, own.read = true, 0
		_ = own.SetWriteDeadline(time.Now().Add(own.listener.nextAnswer))
	}
}

// Read is net.Conn's; it ends with errReadEnough when a request has no end. A connection that never said anything ends with
// the time-out: there is nothing to answer.
func (c *conn) Read(p []byte) (int, error) {
	if c.failure == nil && c.read > c.listener.mostRead {
		c.failure = errReadEnough
	}
	if c.failure != nil {
		return 0, c.failure
	}
	n, err := c.Conn.Read(p)
	if n > 0 && !c.busy.Swap(true) && !c.served {
		// The time limit of a first request was set before its first byte, and a server that stops may have shortened it.
		_ = c.SetReadDeadline(time.Now().Add(c.listener.readTimeout))
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

// expire ends the wait of an idle connection at t. Any goroutine may call it. A request that begins meanwhile keeps its
// time.
func (c *conn) expire(t time.Time) {
	_ = c.SetReadDeadline(t)
	if c.busy.Load() {
		_ = c.SetReadDeadline(time.Now().Add(c.listener.readTimeout))
	}
}

// readFailure is why nothing more can be read of the request's connection; nil: it can.
func readFailure(ctx *fasthttp.RequestCtx) error {
	if own, ok := ctx.Conn().(*conn); ok {
		return own.failure
	}
	return nil
}

// passOver reads the stream to its end if all of it has been read from the connection already, and reports whether it
// was.
func passOver(ctx *fasthttp.RequestCtx, stream io.Reader) bool {
	own, ok := ctx.Conn().(*conn)
	if !ok || own.failure != nil {
		return false
	}
	own.failure = errNotHere
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return false
	}
	own.failure = nil
	return true
}

// refuseRest says that the client may be sending what nobody will read.
func refuseRest(ctx *fasthttp.RequestCtx) {
	if own, ok := ctx.Conn().(*conn); ok {
		own.refused.Store(true)
	}
}

// Close ends the connection; a refused client's last bytes are read first, within bounds.
func (c *conn) Close() error {
	if c.refused.Load() {
		linger(c.Conn, time.Now().Add(lingerTime))
	}
	err := c.Conn.Close()
	c.listener.remove(c)
	return err
}

// linger ends the sending half of a connection and reads on, within bounds, so that the client can read its answer.
func linger(c net.Conn, until time.Time) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(until) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
