package wire

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// failing is a listener whose Accept fails first, and then hands out one end of a pipe.
type failing struct {
	net.Listener
	failures []error
	conn     net.Conn
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.failures) > 0 {
		err := f.failures[0]
		f.failures = f.failures[1:]
		return nil, err
	}
	return f.conn, nil
}

func TestAcceptOutlivesALackOfDescriptors(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	inner := &failing{conn: server, failures: []error{
		&net.OpError{Op: "accept", Err: syscall.EMFILE}, &net.OpError{Op: "accept", Err: syscall.ENFILE},
	}}
	l := NewListener(t.Context(), inner, Config{MaxConnections: 1})
	if _, err := l.Accept(); err != nil {
		t.Fatalf("Accept gave up: %v", err)
	}
}

func TestAcceptReportsABrokenListener(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := NewListener(t.Context(), &failing{failures: []error{broken}}, Config{MaxConnections: 1})
	if _, err := l.Accept(); !errors.Is(err, broken) {
		t.Fatalf("error = %v", err)
	}
}
