package httpapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/testkit/check"
)

const overviewRequest = "GET /v1/exam-prep/xx-sample/overview HTTP/1.1\r\nHost: x\r\n\r\n"

// startServer serves one exam behind a gate until stop; served is what Serve returned.
func startServer(t *testing.T, cfg Config, g Gate, inner net.Listener) (stop func(), served <-chan error) {
	t.Helper()
	server := New(cfg, Deps{
		Gate: g, Catalog: oneExam{document: read.Document{JSON: []byte(`{}`), ETag: `"0123456789abcdef"`}},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, inner) }()
	return cancel, done
}

// lateListener accepts its one connection while it is being closed, and is closed when a request is in hand on it.
type lateListener struct {
	net.Listener
	conn     net.Conn
	accepted chan net.Conn
	inHand   <-chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	if conn, more := <-l.accepted; more {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l *lateListener) Close() error {
	l.accepted <- l.conn
	close(l.accepted)
	<-l.inHand
	return nil
}

// holdingGate lets pass who asks, when it is told to.
type holdingGate struct{ asked, release chan struct{} }

func (g holdingGate) CheckSession(ctx context.Context, _ []byte) gate.Decision {
	return g.Check(ctx, nil, netip.Addr{})
}

func (g holdingGate) Peek(ctx context.Context, client netip.Addr) gate.Decision {
	return g.Check(ctx, nil, client)
}

func (g holdingGate) Check(ctx context.Context, authorization []byte, client netip.Addr) gate.Decision {
	close(g.asked)
	<-g.release
	return openGate{}.Check(ctx, authorization, client)
}

// TestStoppingFinishesWhatIsAcceptedMeanwhile: a connection that is accepted while the listener closes is served like
// those before it, and the server ends after it.
func TestStoppingFinishesWhatIsAcceptedMeanwhile(t *testing.T) {
	t.Parallel()
	startDates()
	synctest.Test(t, func(t *testing.T) {
		g := holdingGate{asked: make(chan struct{}), release: make(chan struct{})}
		client, conn := net.Pipe()
		release := sync.OnceFunc(func() { close(g.release) })
		defer func() {
			release()
			_ = client.Close()
			<-time.After(time.Hour) // until fasthttp's goroutines have ended
		}()
		inner := &lateListener{conn: conn, accepted: make(chan net.Conn), inHand: g.asked}
		stop, served := startServer(t, Config{}, g, inner)
		stop()
		_, err := io.WriteString(client, overviewRequest)
		check.NoError(t, err)
		<-g.asked
		<-time.After(idleLinger) // longer than an idle connection would last
		select {
		case err := <-served:
			t.Fatalf("the server left a request behind: %v", err)
		default:
		}
		release()
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		check.NoError(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || !answer.Close {
			t.Errorf("%s, closes its connection: %v", answer.Status, answer.Close)
		}
		check.Succeeds(t, <-served, "stopping")
	})
}

// TestStoppingAmidConnecting: whenever connections come and go, each server stops once, with nothing left.
func TestStoppingAmidConnecting(t *testing.T) {
	t.Parallel()
	startDates()
	const servers, clients = 100, 4
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(time.Hour) }() // until fasthttp's goroutines have ended
		for range servers {
			inner := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
			stop, served := startServer(t, Config{}, openGate{}, inner)
			var connecting sync.WaitGroup
			for range clients {
				connecting.Go(func() {
					if conn, err := inner.dial(); err == nil {
						_ = conn.Close()
					}
				})
			}
			stop()
			check.NoErrorf(t, <-served, "stopping")
			connecting.Wait()
		}
	})
}
