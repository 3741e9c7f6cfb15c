package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// lingerTime and lingerBytes bound how long a refused client may go on sending before it is cut. Closing at once
	// would reset the connection and take the answer from under the client's nose.
	lingerTime  = 2 * time.Second
	lingerBytes = 4 << 20
	// lingerStart is how much of that is read first, lingerStep how much at a time in the end: most refused clients have
	// nothing more to say, and take little of the pace that all share (pacing.go).
	lingerStart = 2 << 10
	lingerStep  = 64 << 10
	// keptHead bounds the copy of a request's beginning that an idle connection keeps room for.
	keptHead = 1 << 10
)

// conn is a connection that knows whether a request is in hand, and how it began.
type conn struct {
	net.Conn
	listener *listener
	busy     atomic.Bool
	// refused is set when the client may still be sending what nobody will read.
	refused atomic.Bool
	// surplus says that it is one connection too many; it never changes.
	surplus bool
	// source is whose connections it is counted with, if any; it never changes.
	source netip.Addr

	// What follows belongs to the goroutine that serves the connection.

	// head is what was read since the last request's end, up to listener.headBytes. fasthttp forgets the headers of a
	// request that it cannot read; their copy still says whose it was.
	head []byte
	// headless says that head is not the beginning of the request in hand: that came along with the one before.
	headless bool
	// served says that a request was answered on this connection.
	served bool
	// ended says that nothing more can be read.
	ended bool
	// read is how many bytes came since the last request's end.
	read int
}

// errReadEnough is a request that has no end: a body within its bounds, but in chunks that consist of their frames.
var errReadEnough = errors.New("the request is larger than any")

// trackState is fasthttp's ConnState hook.
func trackState(c net.Conn, state fasthttp.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	own.busy.Store(state == fasthttp.StateActive)
	if state == fasthttp.StateActive {
		own.headless = own.served && len(own.head) == 0
	}
	if state == fasthttp.StateIdle {
		own.served, own.read = true, 0
		if own.head = own.head[:0]; cap(own.head) > keptHead {
			own.head = nil
		}
	}
}

// Read is net.Conn's; it keeps the beginning of a request, and ends with errReadEnough when that has no end.
func (c *conn) Read(p []byte) (int, error) {
	if c.read > c.listener.mostRead {
		return 0, errReadEnough
	}
	n, err := c.Conn.Read(p)
	c.read += n
	if err != nil {
		c.ended = true
	}
	if room := c.listener.headBytes - len(c.head); room > 0 {
		c.head = append(c.head, p[:min(n, room)]...)
	}
	return n, err
}

// turnAway answers one connection too many. It hears the request's headers first, for a moment: they may bear an id.
func (c *conn) turnAway() {
	if c.SetDeadline(time.Now().Add(refusalTime)) == nil {
		var buffer [1 << 10]byte
		for !c.ended && len(c.head) < c.listener.headBytes && !bytes.Contains(c.head, headEnd) {
			_, _ = c.Read(buffer[:])
		}
		_ = c.SetWriteDeadline(time.Now().Add(refusalTime))
		_, _ = c.Write(c.listener.refuse(requestIDLine(c.head)))
	}
	_ = c.Close()
}

// headEnd ends a request's headers.
var headEnd = []byte("\r\n\r\n")

// connectionEnded reports whether nothing more can be read of the request's connection.
func connectionEnded(ctx *fasthttp.RequestCtx) bool {
	own, ok := ctx.Conn().(*conn)
	return ok && own.ended
}

// refuseRest says that the client may be sending what nobody will read.
func refuseRest(ctx *fasthttp.RequestCtx) {
	if own, ok := ctx.Conn().(*conn); ok {
		own.refused.Store(true)
	}
}

// recall gives a request that fasthttp could not read its headers back: all of them where it is the body that failed,
// else method and x-request-id as far as they can be made out. Of a request whose beginning came along with the one
// before nothing is known.
func recall(ctx *fasthttp.RequestCtx) {
	own, ok := ctx.Conn().(*conn)
	header := &ctx.Request.Header
	if !ok || own.headless || len(header.RawHeaders()) > 0 {
		return
	}
	if header.Read(bufio.NewReaderSize(bytes.NewReader(own.head), len(own.head)+1)) == nil {
		return
	}
	if bytes.HasPrefix(bytes.TrimLeft(own.head, "\r\n"), []byte(fasthttp.MethodHead+" ")) {
		header.SetMethod(fasthttp.MethodHead)
	}
	header.SetBytesKV(headerRequestID, requestIDLine(own.head))
}

// requestIDLine finds the value of the first x-request-id in the lines of a request that need not be whole nor well
// formed. It looks no further than the first empty line.
func requestIDLine(head []byte) []byte {
	head = bytes.TrimLeft(head, "\r\n")
	for len(head) > 0 {
		line, rest, whole := bytes.Cut(head, []byte{'\n'})
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) == 0 || !whole { // half a line may be half an id
			return nil
		}
		if name, value, found := bytes.Cut(line, []byte{':'}); found && bytes.EqualFold(name, headerRequestID) {
			return bytes.Trim(value, " \t")
		}
		head = rest
	}
	return nil
}

// Close ends the connection; a refused client's last bytes are read first, within bounds.
func (c *conn) Close() error {
	if c.refused.Load() {
		c.linger()
	}
	err := c.Conn.Close()
	c.listener.remove(c)
	return err
}

func (c *conn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	until := time.Now().Add(lingerTime)
	if c.SetReadDeadline(until) != nil {
		return
	}
	for left, step := lingerBytes, lingerStart; left > 0; left, step = left-step, min(2*step, lingerStep) {
		wait, ok := c.listener.lingering.reserve(step, time.Until(until))
		if !ok {
			return
		}
		if wait > 0 {
			turn := time.NewTimer(wait)
			<-turn.C
		}
		if _, err := io.CopyN(io.Discard, c.Conn, int64(step)); err != nil {
			return
		}
	}
}
