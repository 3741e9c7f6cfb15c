package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// laneOf serves handler on connections of one lane; it returns the lane and what makes connections.
func laneOf(t *testing.T, handler fasthttp.RequestHandler) (one *lane, dial func() net.Conn) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	s := &Server{cfg: Config{}.withDefaults(), logger: logger}
	s.life, s.end = context.WithCancel(context.Background())
	t.Cleanup(s.end)
	s.http = &fasthttp.Server{Handler: handler, Logger: slog.NewLogLogger(logger.Handler(), slog.LevelError)}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	one, err = newLane(s, newListener(t.Context(), inner, listenerConfig{most: 10, headBytes: 8 << 10, mostRead: 1 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	go one.run()
	t.Cleanup(one.stop)
	return one, func() net.Conn {
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

// heardOf reads the answer to the only request that was sent.
func heardOf(t *testing.T, client net.Conn) []byte {
	t.Helper()
	return nextOf(t, bufio.NewReader(client))
}

// nextOf reads the next answer.
func nextOf(t *testing.T, answers *bufio.Reader) []byte {
	t.Helper()
	answer, err := http.ReadResponse(answers, nil)
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
			_, dial := laneOf(t, func(ctx *fasthttp.RequestCtx) {
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

// pathBodies answers each path with bytes of its own, so few that they and their header share the lane's buffer.
func pathBodies(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyRaw(bodyOf(string(ctx.Path()))) }

func bodyOf(path string) []byte { return bytes.Repeat([]byte(path+"\n"), 6000/(len(path)+1)) }

// waiting is how many of the lane's connections have an answer in hand that the kernel had no room for. It waits for the
// round under way to end.
func waiting(one *lane) (n int) {
	one.mu.Lock()
	defer one.mu.Unlock()
	for _, c := range one.conns {
		if len(c.unsent) > 0 {
			n++
		}
	}
	return n
}

// TestWhatIsLeftOfASmallAnswerIsNotThatOfAnother: all answers of a lane go through one buffer, and of the last to a client
// that does not read a part is left when those of others go through it.
func TestWhatIsLeftOfASmallAnswerIsNotThatOfAnother(t *testing.T) {
	handled := make(chan struct{}, 1)
	one, dial := laneOf(t, func(ctx *fasthttp.RequestCtx) {
		pathBodies(ctx)
		if bytes.Contains(ctx.Path(), []byte("/lazy/")) {
			handled <- struct{}{}
		}
	})
	lazy, patient := dial(), dial()
	asked := 0
	for left := false; !left; asked++ {
		askLane(t, lazy, fmt.Sprint("x/lazy/", asked))
		<-handled
		if waiting(one) == 0 { // after the round in which it was handled, and so written
			continue
		}
		path := fmt.Sprint("x/patient/", asked)
		askLane(t, patient, path)
		if body := heardOf(t, patient); !bytes.Equal(body, bodyOf(examPaths+path)) {
			t.Fatalf("%s is answered with %.60q", path, body)
		}
		left = waiting(one) > 0 // the kernel may have found room meanwhile
	}
	answers := bufio.NewReader(lazy)
	for n := range asked {
		path := fmt.Sprint("x/lazy/", n)
		if body := nextOf(t, answers); !bytes.Equal(body, bodyOf(examPaths+path)) {
			t.Fatalf("%s, %d of %d, is answered with %.60q", path, n+1, asked, body)
		}
	}
}

// TestALastAnswerIsNotThatOfAnother: an answer that ends its connection is sent by a goroutine of its own while others go
// through the lane's buffer.
func TestALastAnswerIsNotThatOfAnother(t *testing.T) {
	_, dial := laneOf(t, func(ctx *fasthttp.RequestCtx) {
		pathBodies(ctx)
		if bytes.Contains(ctx.Path(), []byte("/last/")) {
			ctx.Response.SetConnectionClose()
		}
	})
	patient := dial()
	for n := range 50 {
		leaving := dial()
		path := fmt.Sprint("x/last/", n)
		askLane(t, leaving, path)
		askLane(t, patient, fmt.Sprint("x/more/", n))
		heardOf(t, patient)
		if body := heardOf(t, leaving); !bytes.Equal(body, bodyOf(examPaths+path)) {
			t.Fatalf("%s is answered with %.60q", path, body)
		}
	}
}
