package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// client is a connection whose client sends as much as is read. It closes its side after closesAfter bytes (0: never), or is gone.
// read counts what is read, and halved notes that the sending half was closed.
type client struct {
	net.Conn

	closesAfter, read    int
	gone, halved, closed bool
	writeUntil           time.Time
}

func (c *client) Read(p []byte) (int, error) {
	if c.closesAfter > 0 && c.read >= c.closesAfter {
		return 0, io.EOF
	}
	c.read += len(p)
	return len(p), nil
}

func (c *client) CloseWrite() error {
	if c.gone {
		return syscall.ENOTCONN
	}
	c.halved = true
	return nil
}

func (c *client) Close() error {
	c.closed = true
	return nil
}

func (c *client) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (c *client) SetWriteDeadline(t time.Time) error {
	c.writeUntil = t
	return nil
}

func (c *client) Write(p []byte) (int, error) { return len(p), nil }

func (c *client) SetReadDeadline(time.Time) error { return nil }

// TestReadingEndsWhateverIsSent: neither a request nor what follows its refusal is read without end.
func TestReadingEndsWhateverIsSent(t *testing.T) {
	t.Parallel()
	const most, piece = 1 << 20, 1 << 10
	sender := &client{}
	l := NewListener(t.Context(), nil, Config{MaxRead: most})
	c := &conn{Conn: sender, listener: l}
	buffer := make([]byte, piece)
	var err error
	for err == nil && sender.read <= 2*most {
		_, err = c.Read(buffer)
	}
	if !errors.Is(err, ErrTooLong) || sender.read > most+piece {
		t.Errorf("%d bytes were read of one request: %v", sender.read, err)
	}
}

// TestEachResponseHasItsTime: a response for which fasthttp sets no deadline has one too.
func TestEachResponseHasItsTime(t *testing.T) {
	t.Parallel()
	const timeout, share = testkit.Patience, testkit.Patience / deadlineShare
	for name, is := range map[string]struct{ ofHandler, pipelined bool }{
		"a handler's response":                                     {ofHandler: true},
		"100 Continue, or an unreadable request's response":        {},
		"the same, of a request that was read with the one before": {pipelined: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sender := &client{}
				c := &conn{Conn: sender, listener: NewListener(t.Context(), nil, Config{MaxRead: 1 << 20, WriteTimeout: timeout})}
				for _, pause := range []time.Duration{0, share / 2, share / 4, share / 2, timeout, 10 * timeout} {
					<-time.After(pause)
					before := sender.writeUntil
					if is.pipelined {
						TrackState(c, fasthttp.StateIdle)
					} else {
						_, err := c.Read(make([]byte, 1))
						check.NoError(t, err)
					}
					if is.ofHandler {
						check.NoError(t, c.SetWriteDeadline(time.Now().Add(timeout)))
					}
					_, err := c.Write([]byte("response"))
					check.NoError(t, err)
					if left := time.Until(sender.writeUntil); left <= timeout-share || left > timeout {
						t.Errorf("after a pause of %s a response has %s", pause, left)
					}
					if isLate := time.Until(before) > timeout-share; isLate != sender.writeUntil.Equal(before) {
						t.Errorf("after a pause of %s the deadline stays: %t", pause, !isLate)
					}
				}
				<-time.After(share)
				before := sender.writeUntil
				_, err := c.Write([]byte("the rest of the response"))
				check.NoError(t, err)
				if !sender.writeUntil.Equal(before) {
					t.Errorf("the rest of a response has time of its own")
				}
			})
		})
	}
}

// TestARefusedConnectionStaysUntilItsClientLeaves: it is read within limits, and then waits unread, but not while the server stops.
func TestARefusedConnectionStaysUntilItsClientLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closesAfter         int
		gone                bool
		othersLinger, stops bool
		least, most         time.Duration
		read, halved        bool
	}{
		"the client closes its side":          {closesAfter: lingerPiece, most: time.Second, read: true, halved: true},
		"the client left before":              {gone: true, most: time.Second},
		"the client sends without end":        {least: holdTime, most: holdTime + lingerTime, read: true, halved: true},
		"others linger":                       {othersLinger: true, least: holdTime, most: holdTime + lingerTime},
		"the server stops":                    {stops: true, most: lingerTime, read: true, halved: true},
		"the server stops, and others linger": {othersLinger: true, stops: true, most: lingerTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := NewListener(ctx, nil, Config{})
				if c.othersLinger {
					for range 1 + lingerBytesPerSecond/lingerBurst*int(lingerTime/time.Second) { // the burst, and all of lingerTime
						l.lingerRate.ReserveN(time.Now(), lingerBurst)
					}
				}
				if c.stops {
					time.AfterFunc(time.Second, cancel)
				}
				sender := &client{closesAfter: c.closesAfter, gone: c.gone}
				own := &conn{Conn: sender, listener: l}
				own.lingers.Store(true)
				began := time.Now()
				if err := own.Close(); err != nil {
					t.Fatal(err)
				}
				cancel()
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
				}
				if sender.read > lingerBytes || (sender.read > 0) != c.read || sender.halved != c.halved {
					t.Errorf("%d bytes were read; the sending half was closed: %v", sender.read, sender.halved)
				}
			})
		})
	}
}

// TestANewConnectionReplacesThoseThatWereHeldLongest: a connection that is held takes half a place. Connections that have a request
// are never closed for a new one, which is refused if no connection is held.
func TestANewConnectionReplacesThoseThatWereHeldLongest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		refused := 0
		inner := &arrivals{clients: make(chan *client, 1)}
		l := NewListener(ctx, inner, Config{MaxConnections: 3, OnRefused: func() { refused++ }, Refusal: func() []byte { return nil }})
		accept := func() (*client, net.Conn) {
			sender := &client{}
			inner.clients <- sender
			own, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			own.(*conn).waits.Store(busy) //nolint:errcheck // the listener returns no other type
			synctest.Wait()
			return sender, own
		}
		var held []*client
		acceptAndHold := func() {
			sender, own := accept()
			held = append(held, sender)
			own.(*conn).lingers.Store(true) //nolint:errcheck // the listener returns no other type
			go own.Close()
			<-time.After(lingerTime + time.Second)
			synctest.Wait()
		}
		expectClosed := func(want int) {
			t.Helper()
			for i, sender := range held {
				if sender.closed != (i < want) {
					t.Fatalf("connection %d of those that are held: closed %t, want the first %d closed", i, sender.closed, want)
				}
			}
		}
		served, _ := accept()
		for range 3 {
			acceptAndHold() // the places are taken but for half a one
		}
		expectClosed(0)
		accept()
		expectClosed(1)
		accept()
		expectClosed(3)
		inner.clients <- &client{}
		close(inner.clients)
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || refused != 1 || served.closed {
			t.Errorf("with only served connections %d were refused, and Accept returned %v; served: closed %t", refused, err, served.closed)
		}
		cancel()
		synctest.Wait()
	})
}

// arrivals is a listener that accepts the clients of a channel.
type arrivals struct {
	net.Listener

	clients chan *client
}

func (a *arrivals) Accept() (net.Conn, error) {
	if c, ok := <-a.clients; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
