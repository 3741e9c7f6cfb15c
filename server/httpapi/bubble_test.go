package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// BubbleKey is the key of a [Bubble] that may pass.
	BubbleKey = "KEY"
	// BubbleOtherKey is a key of another family that may pass.
	BubbleOtherKey = "OTHER"
	// BubbleExhausted is a key of a Bubble without an allowance left.
	BubbleExhausted = "exhausted"
	// BubbleExam is the key of a Bubble's only exam.
	BubbleExam = "xx-sample"
)

// Bubble is a server on connections in memory, in a bubble of package synctest: its clock moves only while all of its
// goroutines wait, so a test asserts times exactly. It has a gate, a catalogue and attempts of its own, and no database.
type Bubble struct {
	Registry *prometheus.Registry
	Logs     *testkit.Record

	t        *testing.T
	listener *pipes
	clients  []net.Conn
	cancel   context.CancelFunc
	err      error
	served   chan struct{} // closed when err is set
}

// InBubble runs test with a server of this configuration. change can replace the server's parts; it can be nil. When test
// returns, the server stops.
func InBubble(t *testing.T, cfg Config, change func(deps *Deps), test func(t *testing.T, b *Bubble)) {
	t.Helper()
	startDates()
	synctest.Test(t, func(t *testing.T) {
		b := &Bubble{t: t, Registry: prometheus.NewRegistry(), Logs: new(testkit.Record), served: make(chan struct{})}
		b.listener = &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
		deps := Deps{
			Gate: keyGate{}, Catalog: bubbleCatalog{}, Attempts: bubbleAttempts{},
			Logger:     slog.New(slog.NewJSONHandler(b.Logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Registerer: b.Registry,
		}
		if change != nil {
			change(&deps)
		}
		server := New(cfg, deps)
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel = cancel
		go func() {
			defer close(b.served)
			b.err = server.Serve(ctx, b.listener)
		}()
		defer b.end()
		test(t, b)
	})
}

// startDates makes fasthttp answer once. It starts a goroutine that keeps its Date and never ends, so no bubble can have it.
var startDates = sync.OnceFunc(func() {
	client, server := net.Pipe()
	go func() {
		_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, client)
	}()
	if err := (&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}).ServeConn(server); err != nil {
		panic(err)
	}
})

// end stops the server and lets fasthttp's goroutines end: the clock of a bubble stands still after its test.
func (b *Bubble) end() {
	b.HangUp()
	_ = b.Stop()
	<-time.After(time.Hour)
}

// Stop ends Serve and returns its error.
func (b *Bubble) Stop() error {
	b.cancel()
	<-b.served
	return b.err
}

// Dial connects to the server. The connection is closed when the test ends.
func (b *Bubble) Dial() net.Conn {
	b.t.Helper()
	client, err := b.listener.dial()
	check.NoError(b.t, err)
	b.clients = append(b.clients, client)
	return client
}

// HangUp closes all connections of clients.
func (b *Bubble) HangUp() {
	for _, client := range b.clients {
		_ = client.Close()
	}
}

// Refuses reports whether the server accepts no connections any more.
func (b *Bubble) Refuses() bool {
	select {
	case <-b.listener.closed:
		return true
	default:
		return false
	}
}

// Metric returns the value of a metric of the server.
func (b *Bubble) Metric(name string, labels map[string]string) float64 {
	b.t.Helper()
	return testkit.Metric(b.t, b.Registry, name, labels)
}

// pipes is a listener of connections in memory. Its clients have the address 127.0.0.1.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p *pipes) dial() (net.Conn, error) {
	toServer, fromClient := net.Pipe()
	toClient, fromServer := net.Pipe()
	select {
	case p.accepted <- pipe{Conn: toServer, sends: fromServer}:
		return pipe{Conn: toClient, sends: fromClient}, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// pipe is an end of a connection whose directions close one by one, as those of TCP do. Writing waits for the reader.
type pipe struct {
	net.Conn // receives

	sends net.Conn
}

func (p pipe) Write(b []byte) (int, error)        { return p.sends.Write(b) }
func (p pipe) CloseWrite() error                  { return p.sends.Close() }
func (p pipe) Close() error                       { return errors.Join(p.sends.Close(), p.Conn.Close()) }
func (p pipe) SetWriteDeadline(t time.Time) error { return p.sends.SetWriteDeadline(t) }
func (p pipe) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p pipe) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// keyGate admits requests with [BubbleKey].
type keyGate struct{}

func (keyGate) Check(ctx context.Context, authorization []byte, client netip.Addr) gate.Decision {
	decision := openGate{}.Check(ctx, authorization, client)
	switch key, _ := bytes.CutPrefix(authorization, []byte("Bearer ")); string(key) {
	case BubbleKey:
		decision.OfKey = true
	case BubbleOtherKey:
		decision.OfKey, decision.Identity.FamilyID = true, uuid.Max
	case BubbleExhausted:
		decision.OfKey, decision.Outcome = true, gate.Limited
	default:
		decision.Outcome = gate.Unauthorized
	}
	return decision
}

func (g keyGate) CheckSession(ctx context.Context, _ []byte) gate.Decision {
	return g.Check(ctx, nil, netip.Addr{})
}

func (keyGate) Peek(ctx context.Context, client netip.Addr) gate.Decision {
	return openGate{}.Peek(ctx, client)
}

// noSessions has no session.
type noSessions struct{ developer.Sessions }

func (noSessions) Authentic([]byte) ([]byte, bool) { return nil, false }

func (noSessions) Lookup(context.Context, string) (sessions.Session, error) {
	return sessions.Session{}, &sessions.NoSessionError{}
}

// WithoutSessions adds the operations of developers to the parts of a server. There are no sessions.
func WithoutSessions(deps *Deps) { deps.Developer = &developer.Deps{Sessions: noSessions{}} }

// bubbleCatalog has one exam.
type bubbleCatalog struct{ Catalog }

func (bubbleCatalog) Ready() bool { return true }

func (bubbleCatalog) OnChange(changed func([]read.ExamEntry)) {
	changed([]read.ExamEntry{{Key: BubbleExam, Name: "Sample", Country: "Spain", CountryCode: "ES", JSON: []byte(`{"exam_key":"` + BubbleExam + `","name":"Sample"}`)}})
}

func (bubbleCatalog) find(examKey string) (read.Document, error) {
	if examKey != BubbleExam {
		return read.Document{}, &catalog.NotFoundError{What: "exam", Name: examKey}
	}
	return standInDocument, nil
}
func (c bubbleCatalog) Overview(examKey string) (read.Document, error)  { return c.find(examKey) }
func (c bubbleCatalog) Resources(examKey string) (read.Document, error) { return c.find(examKey) }
func (c bubbleCatalog) StudyPath(examKey string) (read.Document, error) { return c.find(examKey) }
func (c bubbleCatalog) Papers(examKey string) (read.Document, error)    { return c.find(examKey) }

// bubbleAttempts opens every paper.
type bubbleAttempts struct{ Attempts }

func (bubbleAttempts) Open(_ context.Context, _ keys.Identity, req attempts.OpenRequest) (attempts.Opened, error) {
	return attempts.Opened{AttemptID: uuid.Nil.String(), PaperID: req.PaperID, QuestionCount: 1, State: attempts.StateInProgress}, nil
}

func (bubbleAttempts) History(context.Context, keys.Identity, attempts.HistoryRequest) (attempts.History, error) {
	return attempts.History{Attempts: []attempts.Summary{}}, nil
}
