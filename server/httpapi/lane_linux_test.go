package httpapi

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// pausingBody has so many bytes, and then its end when it is told.
type pausingBody struct {
	left      int
	read, end chan struct{}
}

func (b *pausingBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		close(b.read)
		<-b.end
		return 0, io.EOF
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

// TestWhatIsWrittenOutsideTheLaneIsWrittenToItsEnd: room that there was for it meanwhile is told of only once.
func TestWhatIsWrittenOutsideTheLaneIsWrittenToItsEnd(t *testing.T) {
	const size = 16 << 20
	body := &pausingBody{left: size, read: make(chan struct{}), end: make(chan struct{})}
	s := &Server{cfg: Config{}.withDefaults()}
	s.life, s.end = context.WithCancel(context.Background())
	defer s.end()
	s.http = &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		leaveLane(ctx)
		ctx.Response.SetBodyStream(body, size)
	}}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	one, err := newLane(s, newListener(t.Context(), inner, listenerConfig{most: 10, headBytes: 8 << 10, mostRead: 1 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	go one.run()
	defer one.stop()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	served, err := inner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := one.listener.admit(served); !one.take(c) {
		t.Fatal("the lane does not take the connection")
	}
	if _, err := io.WriteString(client, "GET /v1/exam-prep/x/overview HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-body.read
	received := 0
	readFor := func(patience time.Duration) {
		if err := client.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for buffer := make([]byte, 1<<20); received < size; {
			n, err := client.Read(buffer)
			received += n
			if err != nil {
				return
			}
		}
	}
	readFor(200 * time.Millisecond) // all that the kernel had
	close(body.end)
	if readFor(20 * time.Second); received < size {
		t.Errorf("%d bytes came of %d", received, size)
	}
}
