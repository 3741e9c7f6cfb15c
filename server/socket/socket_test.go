package socket_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"examprep.dev/server/socket"
)

// connected returns both ends of a connection over loopback; near is made quiet.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	dialed, err := new(net.Dialer).DialContext(context.Background(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far = <-accepted
	t.Cleanup(func() { _, _ = dialed.Close(), far.Close() })
	return socket.Conn(dialed), far
}

// TestAConnectionCarriesWhatItIsGiven both ways, more of it than the kernel has room for.
func TestAConnectionCarriesWhatItIsGiven(t *testing.T) {
	near, far := connected(t)
	sent := make([]byte, 16<<20)
	_, _ = rand.Read(sent)
	echoed := make(chan error, 1)
	go func() {
		received := make([]byte, len(sent)) // all of it first, so that the writer has to wait
		_, err := io.ReadFull(far, received)
		if err == nil {
			_, err = far.Write(received)
		}
		echoed <- errors.Join(err, far.Close())
	}()
	if n, err := near.Write(sent); n != len(sent) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(sent), err)
	}
	got, err := io.ReadAll(near) // until its end
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
	}
	if err := <-echoed; err != nil {
		t.Error(err)
	}
	if n, err := near.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if n, err := near.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
}

func TestDeadlinesHold(t *testing.T) {
	near, _ := connected(t)
	if err := near.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read ends with %v", err)
	}
	full := make([]byte, 16<<20)
	if n, err := near.Write(full); !errors.Is(err, os.ErrDeadlineExceeded) || n != 0 {
		t.Errorf("a write after the deadline: %d, %v", n, err)
	}
	if err := near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Write(full); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(full) {
		t.Errorf("a write that nobody reads: %d, %v", n, err)
	}
}

func TestACloseEndsWhoWaits(t *testing.T) {
	near, _ := connected(t)
	ended := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		ended <- err
	}()
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read ends with %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write ends with %v", err)
	}
}

func TestABrokenConnectionSaysSo(t *testing.T) {
	near, far := connected(t)
	tcp, ok := far.(*net.TCPConn)
	if !ok {
		t.Fatalf("the connection is a %T", far)
	}
	if err := tcp.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := near.Read(make([]byte, 1))
	if failed, ok := errors.AsType[*net.OpError](err); !ok || failed.Op != "read" || failed.Timeout() {
		t.Errorf("a read ends with %v", err)
	}
}

// TestWhatIsNoTCPStaysAsItIs: TLS has buffers of its own.
func TestWhatIsNoTCPStaysAsItIs(t *testing.T) {
	one, other := net.Pipe()
	defer func() { _, _ = one.Close(), other.Close() }()
	if socket.Conn(one) != one {
		t.Error("a pipe was wrapped")
	}
}
