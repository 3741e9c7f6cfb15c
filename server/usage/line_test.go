package usage_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit"
)

// line is the network between a process and its database, which can lose an answer.
type line struct {
	address *url.URL
	server  string
	lose    atomic.Pointer[string] // name or text of the statement whose next response is lost; nil for none
	lost    atomic.Bool            // something of that answer has come, and was thrown away

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

func newLine(t *testing.T, cfg *pgx.ConnConfig) *line {
	t.Helper()
	listener := testkit.Listen(t)
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
	l.done.Go(func() {
		defer func() { _ = server.Close() }()
		l.forward(server, client, &mute)
	})
	l.done.Go(func() {
		answers := writerFunc(func(p []byte) (int, error) {
			if mute.Load() {
				l.lost.Store(true)
				return len(p), nil
			}
			return client.Write(p)
		})
		_, _ = io.Copy(answers, server)
		_ = client.Close()
	})
}

// forward brings what the client sends to the server, message by message. From the statement on whose response is lost
// the connection is mute, so that no message before it loses its own.
func (l *line) forward(server io.Writer, client io.Reader, mute *atomic.Bool) {
	if err := forwardMessage(server, client, 0, func([]byte) {}); err != nil { // the first has no type
		return
	}
	statements := map[string]string{} // the texts of those that were prepared, by name
	for {
		err := forwardMessage(server, client, 1, func(message []byte) {
			fields := bytes.SplitN(message[messageHead:], []byte{0}, 3)
			lose := l.lose.Load()
			switch message[0] {
			case 'P': // prepares: name and text
				statements[string(fields[0])] = string(fields[1])
			case 'B': // runs: portal and name
				if lose != nil && strings.HasPrefix(statements[string(fields[1])], "-- name: "+*lose+" ") {
					l.lose.Store(nil)
					mute.Store(true)
				}
			case 'Q': // runs a text
				if lose != nil && string(fields[0]) == *lose {
					l.lose.Store(nil)
					mute.Store(true)
				}
			}
		})
		if err != nil {
			return
		}
	}
}

// messageHead is how much comes before what a message says: its type and, in four bytes, its length but for the type.
const messageHead = 5

// forwardMessage forwards one message, whose type takes so many bytes, once it was seen whole.
func forwardMessage(server io.Writer, client io.Reader, kind int, see func(message []byte)) error {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(client, head); err != nil {
		return err
	}
	message := make([]byte, kind+int(binary.BigEndian.Uint32(head[kind:])))
	copy(message, head)
	if _, err := io.ReadFull(client, message[len(head):]); err != nil {
		return err
	}
	see(message)
	_, err := server.Write(message)
	return err
}

// loseAnswer lets a statement reach the database the next time it is run, and nothing come back of it, nor on its
// connection from then on.
func (l *line) loseAnswer(statement string) { l.lose.Store(&statement) }

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

// addressOf is a database's URL with another host.
func addressOf(cfg *pgx.ConnConfig, host string) *url.URL {
	return &url.URL{
		Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: host, Path: "/" + cfg.Database,
		RawQuery: "sslmode=disable&pool_max_conns=1",
	}
}
