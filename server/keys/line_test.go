package keys_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// line is the network between a process and its database, which can lose an answer.
type line struct {
	address *url.URL
	server  string
	lose    atomic.Int64 // how many statements from now; none if it is not positive

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

func newLine(t *testing.T, cfg *pgx.ConnConfig) *line {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{
		address: addressOf(cfg, listener.Addr().String()),
		server:  net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))),
	}
	l.done.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.connect(t.Context(), client)
		}
	})
	t.Cleanup(func() { _ = listener.Close(); l.cut(); l.done.Wait() })
	return l
}

func (l *line) connect(ctx context.Context, client net.Conn) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l.mu.Lock()
	l.conns = append(l.conns, client, server)
	l.mu.Unlock()
	var mute atomic.Bool
	l.done.Go(func() { l.forward(server, client, &mute) })
	l.done.Go(func() {
		answers := writerFunc(func(p []byte) (int, error) {
			if mute.Load() {
				return len(p), nil
			}
			return client.Write(p)
		})
		_, _ = io.Copy(answers, server)
		_ = client.Close()
	})
}

// forward brings what the client sends to the server. Where the answer is to be lost it looks for a Bind message, with
// which pgx begins each statement that it has prepared before.
func (l *line) forward(server, client net.Conn, mute *atomic.Bool) {
	defer func() { _ = server.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if buffer[0] == 'B' && l.lose.Add(-1) == 0 {
			mute.Store(true)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// loseAnswer lets statements reach the database, and nothing come back from the nth on.
func (l *line) loseAnswer(n int64) { l.lose.Store(n) }

// cut ends all connections.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
