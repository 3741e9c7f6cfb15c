package wire

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
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
	// replaceableAtOnce is how many connections are chosen at once to be replaced, so that a flood does not sort them all each time.
	replaceableAtOnce = 64
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
	WriteTimeout  time.Duration // for a response, which has at least 15/16 of it
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
	lingering int                // of conns: those whose Close reads on or holds
	byAddress map[netip.Addr]int // counts what MaxPerAddress limits
	next      []waiting          // the connections that are replaced next

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

// admit counts a connection; nil: it is one too many.
func (l *Listener) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, listener: l}
	c.address, c.counted = l.source(addressOf(inner.RemoteAddr()))
	c.waits.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.counted && l.byAddress[c.address] >= l.cfg.MaxPerAddress {
		return nil
	}
	if !l.makeRoom(2 + 2*len(l.conns) - l.lingering - 2*l.cfg.MaxConnections) {
		return nil
	}
	if c.counted {
		l.byAddress[c.address]++
	}
	l.conns[c] = struct{}{}
	return c
}

// makeRoom frees halves of a place, at most a whole one. A connection that lingers takes half a place: fasthttp has its buffers back.
// The one that was held longest is ended first, then one that waits. makeRoom reports whether there is one.
func (l *Listener) makeRoom(halves int) bool {
	for range min(halves, 2) {
		select {
		case l.evictions <- struct{}{}: // to the receiver that waited longest
		default:
			return l.replaceOne()
		}
	}
	return true
}

// linger notes that a connection only lingers from now on.
func (l *Listener) linger(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; there && !c.halved {
		c.halved = true
		l.lingering++
	}
}

func (l *Listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; !there {
		return
	}
	delete(l.conns, c)
	if c.halved {
		l.lingering--
	}
	if c.counted {
		if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
			delete(l.byAddress, c.address)
		}
	}
}

// waiting is a connection in a state, which waits since a time. level orders it among those of its address that have not sent a
// valid key: 1 for the one that waits shortest, and so on; 0 for a connection that has sent one.
type waiting struct {
	*conn

	state, since int64
	level        int
}

// replaceOne ends the wait of a connection, and reports whether there is one. It is the one that waits longest of the address with
// the most connections that wait, for a request or for the rest of one, and have not sent a valid key. A connection that has begun a
// request does not come after all that have not: a new client's request is on its way, and those of a flood wait longer. If there is
// none, it is the one that waits longest for a request. A connection is never replaced while its request is answered, nor while it
// has a request after one with a valid key.
func (l *Listener) replaceOne() bool {
	for {
		if len(l.next) == 0 {
			l.next = l.replaceable()
		}
		if len(l.next) == 0 {
			return false
		}
		first := l.next[0]
		l.next = l.next[1:]
		if _, there := l.conns[first.conn]; there && first.replace(first.state) {
			return true
		}
	}
}

// replaceable returns connections that wait, in the order in which they are replaced.
func (l *Listener) replaceable() (all []waiting) {
	for c := range l.conns {
		if state := c.waits.Load(); state != busy && state != replaced {
			all = append(all, waiting{conn: c, state: state, since: max(state, -state)})
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Compare(b.since, a.since) })
	ofAddress := make(map[netip.Addr]int)
	for i, w := range all {
		if !w.proven.Load() {
			ofAddress[w.address]++
			all[i].level = ofAddress[w.address]
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.since, b.since)) })
	few := min(len(all), replaceableAtOnce)
	if proven := slices.IndexFunc(all[:few], func(w waiting) bool { return w.level == 0 }); proven >= 0 {
		few = max(proven, 1) // others can wait when the next one is replaced
	}
	return slices.Clone(all[:min(few, len(all))])
}

// source returns the client whose connections are counted together, as the gate counts requests: an IPv4 address, or the /64 of
// an IPv6 address. counted reports whether MaxPerAddress limits them.
func (l *Listener) source(address netip.Addr) (source netip.Addr, counted bool) {
	counted = l.cfg.MaxPerAddress > 0 && address.IsValid() && !Trusts(l.cfg.Trusted, address)
	if address.Is6() {
		const network = 64
		address = netip.PrefixFrom(address, network).Masked().Addr()
	}
	return address, counted
}

// ExpireIdle ends idle connections at deadline, and returns the number of all connections. A request that arrives before is
// read: fasthttp sets a new deadline with its first byte.
func (l *Listener) ExpireIdle(deadline time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if !hasRequest(c.waits.Load()) {
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
