package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
)

const (
	// lingerTime and lingerBytes bound how long a refused client may go on sending before it is cut. Closing at once
	// would reset the connection and take the answer from under the client's nose.
	lingerTime  = 2 * time.Second
	lingerBytes = 4 << 20
	// refusalWriteTimeout bounds the answer to one connection too many. A fresh socket's buffer takes it at once.
	refusalWriteTimeout = 100 * time.Millisecond
	// acceptRetry is the pause after the process ran out of file descriptors.
	acceptRetry = 50 * time.Millisecond
)

// listener hands connections to fasthttp and keeps account of them, because fasthttp's own shutdown cuts idle
// connections without looking and leaves busy ones behind when its time is over.
type listener struct {
	net.Listener
	ctx  context.Context //nolint:containedctx // ends the pause of Accept, which takes none
	most int
	// refuse is the whole answer to one connection too many.
	refuse func() []byte
	// refused counts them.
	refused func()

	mu    sync.Mutex
	conns map[*conn]struct{}
	// empty is closed when the last connection ends after the listener was closed.
	closed bool
	empty  chan struct{}
}

func newListener(ctx context.Context, inner net.Listener, most int, refuse func() []byte, refused func()) *listener {
	return &listener{
		Listener: inner, ctx: ctx, most: most, refuse: refuse, refused: refused,
		conns: make(map[*conn]struct{}), empty: make(chan struct{}),
	}
}

// Accept returns the next connection, or io.EOF once the listener is closed. Connections beyond the limit get their
// answer here and never reach a worker; a lack of file descriptors is waited out.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return nil, io.EOF
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			pause := time.NewTimer(acceptRetry)
			select {
			case <-pause.C:
			case <-l.ctx.Done():
				pause.Stop()
			}
			continue
		default:
			return nil, err
		}
		if c := l.admit(inner); c != nil {
			return c, nil
		}
		l.refused()
		_ = inner.SetWriteDeadline(time.Now().Add(refusalWriteTimeout))
		_, _ = inner.Write(l.refuse())
		_ = inner.Close()
	}
}

func (l *listener) admit(inner net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.most {
		return nil
	}
	c := &conn{Conn: inner, listener: l}
	l.conns[c] = struct{}{}
	return c
}

// Close stops accepting. Connections live on; drained tells when the last one is gone.
func (l *listener) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if len(l.conns) == 0 {
			close(l.empty)
		}
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

func (l *listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; !there {
		return
	}
	delete(l.conns, c)
	if l.closed && len(l.conns) == 0 {
		close(l.empty)
	}
}

func (l *listener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// expireIdle lets connections without a request in hand end at deadline. A request that reaches one of them before is
// still read, because fasthttp sets a new deadline with its first byte.
func (l *listener) expireIdle(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if !c.busy.Load() {
			_ = c.SetReadDeadline(deadline)
		}
	}
}

// cut closes every connection, whatever it is doing.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}

// conn is a connection that knows whether a request is in hand.
type conn struct {
	net.Conn
	listener *listener
	busy     atomic.Bool
	// refused is set when the client may still be sending what nobody will read.
	refused atomic.Bool
}

// trackState is fasthttp's ConnState hook.
func trackState(c net.Conn, state fasthttp.ConnState) {
	if own, ok := c.(*conn); ok {
		own.busy.Store(state == fasthttp.StateActive)
	}
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
	if c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// rawResponse is a complete HTTP/1.1 answer for a connection that no worker serves. Nobody asked who its client is, so
// tier, whose allowance it tells, is the one of clients without a key.
func rawResponse(refusal *apiError, requestID []byte, tier keys.Tier) []byte {
	body := refusal.appendJSON(nil)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n"+
		"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"+
		"RateLimit-Limit: %d\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: %d\r\nRateLimit-Policy: %d;w=%d\r\n"+
		"Retry-After: %d\r\nx-request-id: %s\r\n\r\n%s",
		refusal.status, fasthttp.StatusMessage(refusal.status), len(body),
		tier.Requests, refusal.retryAfter, tier.Requests, wholeSeconds(tier.Period),
		refusal.retryAfter, requestID, body)
}
