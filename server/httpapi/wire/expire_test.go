package wire

import (
	"net"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestListenerCountsEveryConnectionUntilItEnds: also those that are accepted while it is being closed.
func TestListenerCountsEveryConnectionUntilItEnds(t *testing.T) {
	t.Parallel()
	inner := testkit.Listen(t)
	l := NewListener(t.Context(), inner, Config{MaxConnections: 1})
	comeAndGo := func() {
		client, late := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		c := l.admit(late)
		if c == nil {
			t.Fatal("not admitted")
		}
		if open := l.ExpireIdle(time.Now().Add(time.Hour)); open != 1 {
			t.Fatalf("%d connections are open, want 1", open)
		}
		check.NoError(t, c.Close())
		if open := l.ExpireIdle(time.Now()); open != 0 {
			t.Fatalf("%d connections are open, want none", open)
		}
	}
	comeAndGo()
	check.NoError(t, l.Close())
	comeAndGo()
	comeAndGo()
}

// readDeadline is a connection that only knows its read deadline.
type readDeadline struct {
	net.Conn
	is time.Time
}

func (d *readDeadline) SetReadDeadline(t time.Time) error {
	d.is = t
	return nil
}

func TestExpireEndsTheWaitOfIdleConnectionsAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	inner := &readDeadline{}
	c := &conn{Conn: inner, listener: &Listener{cfg: Config{ReadTimeout: time.Hour}}}
	c.waits.Store(now.UnixNano())
	if c.expire(now); !inner.is.Equal(now) {
		t.Errorf("an idle connection ends %s later", inner.is.Sub(now))
	}
	c.waits.Store(busy)
	if c.expire(now); inner.is.Before(now.Add(time.Hour)) {
		t.Errorf("a request that has begun has %s left", inner.is.Sub(now))
	}
}
