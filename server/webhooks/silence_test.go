package webhooks

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
)

// silencer stands before Postgres. Connections that were there when it fell silent stay open and carry nothing any
// more, as after a fail-over or behind a forgetful NAT; later ones work.
type silencer struct {
	net.Listener

	mu    sync.Mutex
	links []*link
}

// link is one connection through the silencer.
type link struct {
	ends   [2]net.Conn
	silent chan struct{}
}

func newSilencer(t *testing.T, target string) *silencer {
	t.Helper()
	listener := testkit.Listen(t)
	s := &silencer{Listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = near.Close()
				return
			}
			l := &link{ends: [2]net.Conn{near, far}, silent: make(chan struct{})}
			s.mu.Lock()
			s.links = append(s.links, l)
			s.mu.Unlock()
			go l.carry(near, far)
			go l.carry(far, near)
		}
	}()
	return s
}

// Close ends all connections too.
func (s *silencer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		_ = l.ends[0].Close()
		_ = l.ends[1].Close()
	}
	return s.Listener.Close()
}

func (l *link) carry(from, to net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		select {
		case <-l.silent:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			_ = to.Close()
			return
		}
	}
}

func (s *silencer) fallSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		select {
		case <-l.silent:
		default:
			close(l.silent)
		}
	}
}

func TestRelayingGoesOnAfterPostgresConnectionsWentSilent(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	address, err := url.Parse(b.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	s := newSilencer(t, address.Host)
	address.Host = s.Addr().String()
	pool := testkit.Open(t, address.String())
	t.Cleanup(func() { _ = s.Close() }) // before the pool waits for silent connections to say good-bye
	w, err := NewWorker(b.brisk(t, r), pool, b.redis, b.keyring)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, w.Run)
	b.fill(t, endpoint.ID, 1)
	r.next(t)
	b.until(t, 1, inState, "delivered")
	s.fallSilent()
	b.fill(t, endpoint.ID, 1)
	r.next(t)
	b.until(t, 2, inState, "delivered")
}

func TestAReceiverThatIsGoneIsDisabledWhenTheDatabaseIsBack(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	w := b.worker(t, r)
	gone := result{row: webhooksdb.LeaseRow{EndpointID: endpoint.ID}, outcome: outcome{status: http.StatusGone, failure: "status"}}
	if err := b.pool.QueryRow(t.Context(), "SELECT updated_at FROM webhook_endpoints").Scan(&gone.row.UpdatedAt); err != nil {
		t.Fatal(err)
	}
	restore := testkit.CutOff(t, b.pool)
	w.noteHealth(t.Context(), []result{gone})
	restore()
	w.noteHealth(t.Context(), nil) // with the next outcome, whosever it is
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
}
