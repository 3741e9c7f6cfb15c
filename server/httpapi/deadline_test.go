package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"
)

// recorder is a connection that only knows its deadlines, and how often one was set.
type recorder struct {
	net.Conn
	read, write time.Time
	sets        int
}

func (r *recorder) Read([]byte) (int, error) { return 0, nil }

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

func (r *recorder) SetDeadline(t time.Time) error {
	return errors.Join(r.SetReadDeadline(t), r.SetWriteDeadline(t))
}

func (r *recorder) SetReadDeadline(t time.Time) error {
	r.read = t
	r.sets++
	return nil
}

func (r *recorder) SetWriteDeadline(t time.Time) error {
	r.write = t
	r.sets++
	return nil
}

// TestADeadlineIsNeverLateAndHardlyEarly lets time pass while deadlines come as fasthttp sets them, and a server that
// stops shortens some.
func TestADeadlineIsNeverLateAndHardlyEarly(t *testing.T) {
	const slack = time.Second
	rapid.Check(t, func(t *rapid.T) {
		inner := &recorder{}
		c := &conn{Conn: inner, listener: &listener{listenerConfig: listenerConfig{slack: slack}}}
		now := time.Unix(1_700_000_000, 0)
		within := func(what string, set, asked time.Time) {
			if early := asked.Sub(set); early < 0 || early > slack {
				t.Fatalf("%s deadline: %s before what was asked for", what, early)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "passed")) * time.Millisecond)
			asked := now.Add(time.Duration(rapid.SampledFrom([]int{1, 15, 16, 75}).Draw(t, "limit")) * time.Second)
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				_ = c.SetReadDeadline(asked)
			case 1:
				_ = c.SetReadDeadline(asked)
				_, _ = c.Read(nil)
				within("read", inner.read, asked)
			case 2:
				_ = c.SetWriteDeadline(asked)
				within("write", inner.write, asked)
			case 3:
				c.expire(now)
				if !inner.read.Equal(now) {
					t.Fatal("expire does not take effect at once")
				}
			case 4:
				_ = c.SetDeadline(asked)
				_, _ = c.Read(nil)
				within("read", inner.read, asked)
				within("write", inner.write, asked)
			}
		}
	})
}

func TestAShortenedDeadlineDoesNotOutliveTheWait(t *testing.T) {
	inner := &recorder{}
	c := &conn{Conn: inner, listener: &listener{listenerConfig: listenerConfig{slack: time.Hour}}}
	now := time.Unix(1_700_000_000, 0)
	_ = c.SetReadDeadline(now.Add(time.Minute))
	_, _ = c.Read(nil)
	c.expire(now)
	_ = c.SetReadDeadline(now.Add(time.Minute)) // a request's first byte came in time
	if _, _ = c.Read(nil); !inner.read.Equal(now.Add(time.Minute)) {
		t.Errorf("its rest may take %s", inner.read.Sub(now))
	}
}

func TestRequestsInQuickSuccessionSetNoDeadlines(t *testing.T) {
	inner := &recorder{}
	c := &conn{Conn: inner, listener: &listener{listenerConfig: listenerConfig{slack: time.Second}}}
	now := time.Unix(1_700_000_000, 0)
	for range 100 {
		now = now.Add(time.Millisecond)
		_ = c.SetReadDeadline(now.Add(75 * time.Second))
		_, _ = c.Read(nil)
		_ = c.SetReadDeadline(now.Add(15 * time.Second))
		_ = c.SetWriteDeadline(now.Add(30 * time.Second))
	}
	if inner.sets != 2 {
		t.Errorf("deadlines were set %d times, want once for reading and once for writing", inner.sets)
	}
}

// TestEveryAnswerHasATimeOfItsOwn: an answer that fasthttp writes without setting a deadline is not cut by the deadline of
// the answer before it.
func TestEveryAnswerHasATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := startServer(t, Config{WriteTimeout: limit, ReadTimeout: 2 * limit}, openGate{}, inner)
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	const asking = "POST /v1/exam-prep/xx-sample/mock-exams/open HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	for _, c := range []struct {
		name, second string
		// late tells that the second request is sent when the first answer's time is over.
		late   bool
		status []int
	}{
		{"asks to go on", asking, true, []int{http.StatusContinue}},
		{"cannot be read", "GET / SPDY/3\r\nHost: x\r\n\r\n", true, []int{http.StatusBadRequest}},
		{"does not end", "GET / HT", false, []int{http.StatusRequestTimeout}},
		{"asks to go on, and does not", asking, false, []int{http.StatusContinue, http.StatusRequestTimeout}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			answers := bufio.NewReader(conn)
			askOn(t, conn, answers, overviewRequest, http.StatusOK)
			if c.late {
				over := time.NewTimer(limit + limit/4) // its deadline was set before it came
				<-over.C
			}
			askOn(t, conn, answers, c.second, c.status...)
		})
	}
}

// askOn sends a request and reads as many answers as statuses are wanted.
func askOn(t *testing.T, conn net.Conn, answers *bufio.Reader, request string, statuses ...int) {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	for _, want := range statuses {
		got, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("no answer, want %d: %v", want, err)
		}
		_, err = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		if err != nil || got.StatusCode != want {
			t.Fatalf("%s, %v, want %d", got.Status, err, want)
		}
	}
}

// TestTheWritesOfOneAnswerShareItsTime, and what comes after a Read or a request's end has its own.
func TestTheWritesOfOneAnswerShareItsTime(t *testing.T) {
	inner := &recorder{}
	c := &conn{Conn: inner, listener: &listener{listenerConfig: listenerConfig{writeTimeout: time.Hour}}}
	part := []byte("x")
	write := func() time.Time {
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
		return inner.write
	}
	first := write()
	if first.IsZero() {
		t.Fatal("a write has no end")
	}
	if again := write(); !again.Equal(first) {
		t.Errorf("the second part of an answer gets %s more", again.Sub(first))
	}
	asked := time.Unix(1_700_000_000, 0)
	if err := c.SetWriteDeadline(asked); err != nil {
		t.Fatal(err)
	}
	if got := write(); !got.Equal(asked) {
		t.Errorf("an answer ends at %s, asked for was %s", got, asked)
	}
	for what, step := range map[string]func(){
		"a Read":          func() { _, _ = c.Read(nil) },
		"a request's end": func() { trackState(c, fasthttp.StateIdle) },
	} {
		if err := c.SetWriteDeadline(asked); err != nil {
			t.Fatal(err)
		}
		if step(); !write().After(asked) {
			t.Errorf("after %s the deadline is still the one from before", what)
		}
	}
	if n := testing.AllocsPerRun(100, func() { trackState(c, fasthttp.StateIdle); write() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// overdue is a connection whose wait ends before it is looked at what has come, as on a busy machine.
type overdue struct {
	net.Conn
	over bool
}

func (o *overdue) Read(p []byte) (int, error) {
	if o.over {
		return 0, os.ErrDeadlineExceeded
	}
	return o.Conn.Read(p)
}

func (o *overdue) SetReadDeadline(t time.Time) error {
	o.over = !t.After(time.Now())
	return nil
}

func TestARequestThatCameBeforeItsConnectionsEndIsRead(t *testing.T) {
	client, inner := net.Pipe()
	defer func() { _ = client.Close() }()
	c := &conn{Conn: &overdue{Conn: inner}, listener: &listener{listenerConfig: listenerConfig{headBytes: 10, mostRead: 10}}, served: true}
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	sent := make(chan error, 1)
	go func() {
		_, err := client.Write([]byte("G"))
		sent <- err
	}()
	var p [1]byte
	if n, err := c.Read(p[:]); n != 1 || err != nil || !c.busy.Load() {
		t.Fatalf("read %d bytes, %v, busy: %t", n, err, c.busy.Load())
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(p[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("what follows has the time that it had: read %d bytes, %v", n, err)
	}
}
