package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
)

const (
	// refusalTime bounds the answer to one connection too many, and the time to read it.
	refusalTime = 250 * time.Millisecond
	// mostRefusing bounds the refused connections that stay open, so that their clients can read the answer. One more is
	// closed as soon as it is answered.
	mostRefusing = 256
	// acceptRetry is the pause after the process ran out of file descriptors.
	acceptRetry = 50 * time.Millisecond
)

// listenerConfig bounds a listener and its connections.
type listenerConfig struct {
	// most connections are served at once.
	most int
	// mostOfOne bounds the connections of one client address, if it is not 0; those of trusted proxies are not counted.
	mostOfOne int
	trusted   []netip.Prefix
	// mostRead bounds what is read of one request, frames and all.
	mostRead int
	// readTimeout is for a request from its first byte to its last.
	readTimeout time.Duration
	// nextAnswer bounds the time from one answer to the end of the next, if fasthttp sets no deadline of its own.
	nextAnswer time.Duration
	// refuse is the whole answer to one connection too many.
	refuse func() []byte
	// refused counts them.
	refused func()
}

// listener hands connections to fasthttp and keeps account of them, because fasthttp's own shutdown cuts idle
// connections without looking and leaves busy ones behind when its time is over.
type listener struct {
	net.Listener
	listenerConfig
	ctx context.Context //nolint:containedctx // ends the pause of Accept, which takes none

	mu    sync.Mutex
	conns map[*conn]struct{}
	// byAddress counts those that mostOfOne bounds.
	byAddress map[netip.Addr]int
	// refusing has an element for each refused connection that stays open.
	refusing chan struct{}
}

func newListener(ctx context.Context, inner net.Listener, cfg listenerConfig) *listener {
	return &listener{
		Listener: inner, listenerConfig: cfg, ctx: ctx,
		conns: make(map[*conn]struct{}), byAddress: make(map[netip.Addr]int),
		refusing: make(chan struct{}, mostRefusing),
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
		l.refused() // before it is answered: who has the answer finds it counted
		l.turnAway(inner)
	}
}

// turnAway answers one connection too many: at once, for the answer fits the send buffer of a new connection. The
// connection is none of conns, and ends within refusalTime.
func (l *listener) turnAway(inner net.Conn) {
	until := time.Now().Add(refusalTime)
	if inner.SetWriteDeadline(until) == nil {
		_, _ = inner.Write(l.refuse())
	}
	select {
	case l.refusing <- struct{}{}:
		go func() {
			linger(inner, until)
			_ = inner.Close()
			<-l.refusing
		}()
	default:
		_ = inner.Close()
	}
}

// admit takes the connection in; nil: it is one too many.
func (l *listener) admit(inner net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	peer := peerAddress(inner.RemoteAddr())
	source := l.source(peer)
	if len(l.conns) >= l.most || source.IsValid() && l.byAddress[source] >= l.mostOfOne {
		return nil
	}
	if source.IsValid() {
		l.byAddress[source]++
	}
	c := &conn{Conn: inner, listener: l, peer: peer, source: source}
	l.conns[c] = struct{}{}
	return c
}

func (l *listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; !there {
		return
	}
	delete(l.conns, c)
	if c.source.IsValid() {
		if l.byAddress[c.source]--; l.byAddress[c.source] == 0 {
			delete(l.byAddress, c.source)
		}
	}
}

// source is the client whose connections are counted together, as the gate counts them: an IPv4 address, or the /64 of
// an IPv6 address. It is the zero Addr where none are counted.
func (l *listener) source(address netip.Addr) netip.Addr {
	if l.mostOfOne == 0 || !address.IsValid() || trusts(l.trusted, address) {
		return netip.Addr{}
	}
	if address.Is6() {
		const network = 64
		return netip.PrefixFrom(address, network).Masked().Addr()
	}
	return address
}

// expireIdle lets connections without a request in hand end at deadline, and returns how many there are of all. A request
// that reaches one of them before is still read, because fasthttp sets a new deadline with its first byte.
func (l *listener) expireIdle(deadline time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if !c.busy.Load() {
			c.expire(deadline)
		}
	}
	return len(l.conns)
}

// cut closes every connection, whatever it is doing.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}

// rawResponse is a complete HTTP/1.1 answer for a connection that no worker serves. Nobody asked who its client is, so
// tier, whose allowance it tells, is the one of clients without a key.
func rawResponse(refusal *apiError, requestID []byte, tier keys.Tier) []byte {
	body := refusal.body()
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n"+
		"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"+
		"RateLimit-Limit: %d\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: %d\r\nRateLimit-Policy: %d;w=%d\r\n"+
		"Retry-After: %d\r\nx-request-id: %s\r\n\r\n%s",
		refusal.status, fasthttp.StatusMessage(refusal.status), len(body),
		tier.Requests, refusal.retryAfter, tier.Requests, wholeSeconds(tier.Period),
		refusal.retryAfter, requestID, body)
}
