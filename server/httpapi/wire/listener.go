package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

const (
	// refusalTimeout bounds writing to a connection over the limit. It then stays open as long, so that its client can read.
	refusalTimeout = 250 * time.Millisecond
	// refusalsOpen is how many connections over the limit stay open, per second. Others are closed at once.
	refusalsOpen = 50
	// acceptRetry is the pause after the process ran out of file descriptors.
	acceptRetry = 50 * time.Millisecond
)

// Config holds the limits of a [Listener] and its connections.
type Config struct {
	MaxConnections int // that are served at once
	// MaxPerAddress is the number for one client address (an IPv4 address, or the /64 of an IPv6 one); 0: no limit. Connections
	// of trusted proxies are not counted.
	MaxPerAddress int
	Trusted       []netip.Prefix
	MaxRead       int           // bytes that are read of one request, with its framing
	ReadTimeout   time.Duration // for a request from its first byte to its last
	WriteTimeout  time.Duration // from one response to the end of the next, where fasthttp sets no deadline
	// Refusal returns the response to one connection too many; OnRefused is called before it is sent.
	Refusal   func() []byte
	OnRefused func()
}

// Listener accepts connections for fasthttp and counts them. fasthttp's own shutdown closes idle connections at once, though a
// request can be on its way, and leaves busy ones open when its time is over.
type Listener struct {
	net.Listener

	cfg Config
	ctx context.Context //nolint:containedctx // ends the pause of Accept, which takes none

	mu        sync.Mutex
	conns     map[*conn]struct{}
	byAddress map[netip.Addr]int // counts what MaxPerAddress limits

	evictions  chan struct{} // each ends the connection that was held longest
	lingerRate *rate.Limiter // bytes
	refusals   *rate.Limiter // connections
}

// NewListener returns a listener on inner. ctx ends its pauses.
func NewListener(ctx context.Context, inner net.Listener, cfg Config) *Listener {
	return &Listener{
		Listener: inner, cfg: cfg, ctx: ctx,
		conns: make(map[*conn]struct{}), byAddress: make(map[netip.Addr]int), evictions: make(chan struct{}),
		lingerRate: rate.NewLimiter(lingerBytesPerSecond, lingerBurst),
		refusals:   rate.NewLimiter(refusalsOpen, refusalsOpen),
	}
}

// Accept returns the next connection. It answers those beyond the limit, and waits while the process lacks file descriptors.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			select {
			case <-time.After(acceptRetry):
			case <-l.ctx.Done():
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := l.admit(inner); c != nil {
			return c, nil
		}
		l.refuse(inner)
	}
}

// refuse answers one connection too many and closes it within half a second. The response fits a new connection's send buffer.
func (l *Listener) refuse(inner net.Conn) {
	l.cfg.OnRefused()
	_ = inner.SetWriteDeadline(time.Now().Add(refusalTimeout)) // it fails only where writing does
	_, _ = inner.Write(l.cfg.Refusal())
	if !l.refusals.Allow() {
		_ = inner.Close()
		return
	}
	time.AfterFunc(refusalTimeout, func() { _ = inner.Close() })
}

// admit counts a connection. At the limit it replaces the one that was held longest; nil: there is none, so it is one too many.
func (l *Listener) admit(inner net.Conn) *conn {
	source := l.source(addressOf(inner.RemoteAddr()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if source.IsValid() && l.byAddress[source] >= l.cfg.MaxPerAddress {
		return nil
	}
	if len(l.conns) >= l.cfg.MaxConnections {
		select {
		case l.evictions <- struct{}{}: // to the receiver that waited longest
		default:
			return nil
		}
	}
	if source.IsValid() {
		l.byAddress[source]++
	}
	c := &conn{Conn: inner, listener: l, source: source}
	l.conns[c] = struct{}{}
	return c
}

func (l *Listener) remove(c *conn) {
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

// source returns the client whose connections are counted together, as the gate counts requests: an IPv4 address, or the /64 of
// an IPv6 address. It is the zero Addr if they are not counted.
func (l *Listener) source(address netip.Addr) netip.Addr {
	if l.cfg.MaxPerAddress == 0 || !address.IsValid() || Trusts(l.cfg.Trusted, address) {
		return netip.Addr{}
	}
	if address.Is6() {
		const network = 64
		return netip.PrefixFrom(address, network).Masked().Addr()
	}
	return address
}

// ExpireIdle ends idle connections at deadline, and returns the number of all connections. A request that arrives before is
// read: fasthttp sets a new deadline with its first byte.
func (l *Listener) ExpireIdle(deadline time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if !c.busy.Load() {
			c.expire(deadline)
		}
	}
	return len(l.conns)
}

// Cut closes all connections.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}
