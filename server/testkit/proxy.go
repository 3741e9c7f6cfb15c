package testkit

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/testkit/check"
)

// Proxy forwards TCP connections to a server. A test can cut, delay, silence and record them.
type Proxy struct {
	// URL is the server's URL with the proxy's address.
	URL string

	options         ProxyOptions
	network, server string
	delay           atomic.Int64
	lost            atomic.Bool

	mu    sync.Mutex
	away  bool
	links map[*link]struct{}
}

// ProxyOptions are the optional parts of a proxy.
type ProxyOptions struct {
	// Record receives the bytes of both directions.
	Record *Record
	// Forward replaces the copying of what a client sends. mute discards all further answers to that client.
	Forward func(server io.Writer, client io.Reader, mute func())
}

type link struct {
	client, server     net.Conn
	noRequest, noReply atomic.Bool
}

// StartProxy starts a proxy to the server of a postgres:// or redis:// URL.
func StartProxy(t testing.TB, address string, options ProxyOptions) *Proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.NoError(t, err)
	p := &Proxy{options: options, links: map[*link]struct{}{}}
	p.route(t, address, listener.Addr().String())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut(true)
		serving.Wait()
	})
	return p
}

// route sets the server's address and the URL through the proxy.
func (p *Proxy) route(t testing.TB, address, through string) {
	t.Helper()
	parsed, err := url.Parse(address)
	check.NoError(t, err)
	p.network, p.server = "tcp", parsed.Host
	if strings.HasPrefix(parsed.Scheme, "postgres") {
		config, err := pgx.ParseConfig(address)
		check.NoError(t, err)
		p.network, p.server = pgconn.NetworkAddress(config.Host, config.Port)
		query := parsed.Query()
		query.Del("host")
		query.Del("port")
		query.Set("sslmode", "disable")
		parsed.RawQuery = query.Encode()
	}
	parsed.Host = through
	p.URL = parsed.String()
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(context.Background(), p.network, p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	l := &link{client: client, server: server}
	if !p.admit(l) {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(p.tap(client, &l.noReply, &p.delay), server)
		_ = client.Close()
	}()
	requests := p.tap(server, &l.noRequest, nil)
	if p.options.Forward != nil {
		p.options.Forward(requests, client, func() { l.noReply.Store(true) })
	} else {
		_, _ = io.Copy(requests, client)
	}
	_ = server.Close()
	<-back
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.away {
		p.links[l] = struct{}{}
	}
	return !p.away
}

// tap returns a writer to one end of a connection.
func (p *Proxy) tap(to io.Writer, silent *atomic.Bool, delay *atomic.Int64) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		if silent.Load() {
			p.lost.Store(true)
			return len(b), nil
		}
		if p.options.Record != nil {
			_, _ = p.options.Record.Write(b)
		}
		if delay != nil && delay.Load() > 0 {
			<-time.After(time.Duration(delay.Load()))
		}
		return to.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Cut closes all connections. While away is true, new ones are closed as well.
func (p *Proxy) Cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	for l := range p.links {
		_ = l.client.Close()
		_ = l.server.Close()
	}
}

// Delay delays each piece of an answer by d.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Silence keeps the present connections open and discards their bytes, as after a failover. New connections work.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.noRequest.Store(true)
		l.noReply.Store(true)
	}
}

// Lost reports whether the proxy has discarded bytes.
func (p *Proxy) Lost() bool { return p.lost.Load() }

// Traffic returns the record of the proxy's options.
func (p *Proxy) Traffic() *Record { return p.options.Record }
