package wire

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a connection whose client never stops sending. It counts what is read, and notes whether its sending half was closed.
type endless struct {
	net.Conn
	read   int
	halved bool
}

func (e *endless) Read(p []byte) (int, error) { e.read += len(p); return len(p), nil }

func (e *endless) CloseWrite() error { e.halved = true; return nil }

func (e *endless) Close() error { return nil }

func (e *endless) SetReadDeadline(time.Time) error { return nil }

// TestReadingEndsWhateverIsSent: neither a request nor what follows its refusal is read without end.
func TestReadingEndsWhateverIsSent(t *testing.T) {
	t.Parallel()
	const most, piece = 1 << 20, 1 << 10
	sender := &endless{}
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
	sender.read = 0
	c.lingers.Store(true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if sender.read == 0 || sender.read > lingerBytes {
		t.Errorf("%d bytes were read after the refusal", sender.read)
	}
}

func TestAConnectionWaitsOpenWhileOthersLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewListener(t.Context(), nil, Config{})
		for range 1 + lingerBytesPerSecond/lingerBurst*int(lingerTime/time.Second) { // the burst, and all of lingerTime
			l.lingerRate.ReserveN(time.Now(), lingerBurst)
		}
		sender := &endless{}
		c := &conn{Conn: sender, listener: l}
		c.lingers.Store(true)
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != lingerTime || sender.read != 0 || sender.halved {
			t.Errorf("it waited %s, read %d bytes, told the client to come back: %v", waited, sender.read, sender.halved)
		}
	})
}
