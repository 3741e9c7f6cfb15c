package firing

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tap stands between processes and a server, and can be cut.
type tap struct {
	listener net.Listener
	server   string

	// slow is by how much each answer is held up, in nanoseconds.
	slow atomic.Int64

	mu   sync.Mutex
	away bool
	open map[net.Conn]struct{}
}

func newTap(t *testing.T, server string) *tap {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{listener: listener, server: server, open: map[net.Conn]struct{}{}}
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
		p.cut(true)
		serving.Wait()
	})
	return p
}

func (p *tap) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	away := p.away
	p.open[client] = struct{}{}
	p.mu.Unlock()
	if away {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(held{client, &p.slow}, server)
		_ = client.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-back
	p.mu.Lock()
	delete(p.open, client)
	p.mu.Unlock()
}

// held writes after a while.
type held struct {
	io.Writer
	slow *atomic.Int64
}

// Write waits, and writes.
func (h held) Write(p []byte) (int, error) {
	<-time.After(time.Duration(h.slow.Load()))
	return h.Writer.Write(p)
}

// cut breaks every connection, and each new one while away.
func (p *tap) cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	for client := range p.open {
		_ = client.Close()
	}
}
