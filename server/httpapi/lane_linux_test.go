package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// laneOf serves handler on connections of one lane; it returns what makes them.
func laneOf(t *testing.T, handler fasthttp.RequestHandler) (dial func() net.Conn) {
	t.Helper()
	s := &Server{cfg: Config{}.withDefaults()}
	s.life, s.end = context.WithCancel(context.Background())
	t.Cleanup(s.end)
	s.http = &fasthttp.Server{Handler: handler}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	one, err := newLane(s, newListener(t.Context(), inner, listenerConfig{most: 10, headBytes: 8 << 10, mostRead: 1 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	go one.run()
	t.Cleanup(one.stop)
	return func() net.Conn {
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil { // what is lost is waited for no longer
			t.Fatal(err)
		}
		served, err := inner.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := one.listener.admit(served); !one.take(c) {
			t.Fatal("the lane does not take the connection")
		}
		return client
	}
}

// askLane sends a request to a lane.
func askLane(t *testing.T, client net.Conn, path string) {
	t.Helper()
	if _, err := io.WriteString(client, "GET "+examPaths+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// heardOf reads the answer to a request.
func heardOf(t *testing.T, client net.Conn) []byte {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestWhoDoesNotReadKeepsNobodyWaiting: the kernel has no room for all of an answer that nobody reads. Others are answered
// meanwhile, and of the answer nothing is lost, whether it was made in the lane or in a goroutine of its own.
func TestWhoDoesNotReadKeepsNobodyWaiting(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
	for name, leaves := range map[string]bool{"in the lane": false, "outside of it": true} {
		t.Run(name, func(t *testing.T) {
			dial := laneOf(t, func(ctx *fasthttp.RequestCtx) {
				body := []byte("small")
				if bytes.HasSuffix(ctx.Path(), []byte("large")) {
					if leaves {
						leaveLane(ctx)
					}
					body = large
				}
				ctx.Response.SetBodyRaw(body)
			})
			patient, lazy := dial(), dial()
			for range 3 {
				askLane(t, lazy, "x/large")
				askLane(t, patient, "x/small")
				if body := heardOf(t, patient); string(body) != "small" {
					t.Fatalf("beside an answer that nobody reads %q is answered", body)
				}
				if body := heardOf(t, lazy); !bytes.Equal(body, large) {
					t.Fatalf("%d bytes came of %d, or others", len(body), len(large))
				}
			}
		})
	}
}
