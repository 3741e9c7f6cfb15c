package httpapi

import (
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// recorder is a connection that only knows its deadlines, and how often one was set.
type recorder struct {
	net.Conn
	read, write time.Time
	sets        int
}

func (r *recorder) Read([]byte) (int, error) { return 0, nil }

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
			switch rapid.IntRange(0, 3).Draw(t, "step") {
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
