package ratelimit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestCallsKeepTheirConnections: a call opens no connection, and takes none from the pool. The clock stands still, so no
// connection rests too long.
func TestCallsKeepTheirConnections(t *testing.T) {
	server, start := testkit.StartRedis(t), time.Now()
	rdb := testkit.OpenRedis(t, server.URL(), func(o *redis.UniversalOptions) {
		ClientOptions(o)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = testkit.Patience, testkit.Patience, testkit.Patience, testkit.Patience
	})
	l := New(Config{CallTimeout: testkit.Patience, Pods: func() int { return 1 }, Now: func() time.Time { return start }}, rdb)
	t.Cleanup(l.Close)
	r := mustRate(t, 1, time.Hour, 10_000)
	take := func() {
		if got, err := l.Take(context.Background(), ID{}, r); err != nil || !got.Allowed || got.Local {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	take()
	before := rdb.PoolStats()
	for range 50 {
		take()
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 50 {
				take()
			}
		})
	}
	group.Wait()
	after := rdb.PoolStats()
	if opened, lent := after.Misses-before.Misses, after.Hits-before.Hits; opened > 2 || lent > 2 || after.StaleConns > 0 {
		t.Errorf("%d connections were opened, %d lent by the pool, %d found stale", opened, lent, after.StaleConns)
	}
}

// TestBucketsThatLookAlikeAreApart: a batch tells buckets apart by all bytes of their ids.
func TestBucketsThatLookAlikeAreApart(t *testing.T) {
	r := mustRate(t, 1, time.Hour, 1)
	one, other := &call{Request: request{id: ID{11: 1}, rate: r}}, &call{Request: request{id: ID{11: 2}, rate: r}}
	g := groupOf(one, other, one, other, other)
	if len(g.items) != 2 || g.items[0].asked != 2 || g.items[1].asked != 3 {
		t.Errorf("got %+v", g.items)
	}
	if g.ids[0] != one.Request.id || g.ids[1] != other.Request.id {
		t.Errorf("got %v", g.ids)
	}
}

func TestCallIsEncodedAndDecodedWithoutAllocations(t *testing.T) {
	var calls []*call
	for i := range byte(16) {
		calls = append(calls, &call{Request: request{id: ID{1: i}, rate: mustRate(t, 1+int(i%3), time.Second, 5)}})
	}
	cmd := redis.NewCmd(t.Context())
	cmd.SetVal(strings.Repeat("\x01\x00"+strings.Repeat("\x00", 8), len(calls)))
	var g group
	if n := testing.AllocsPerRun(100, func() {
		g.reset()
		for _, c := range calls {
			g.add(c)
		}
		g.encode()
		g.cmd = cmd
		check.NoError(t, g.answer())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("", uint8(0))
	f.Add("\x01\x00"+strings.Repeat("\x00", 8), uint8(1))
	f.Add("\x01\x00"+strings.Repeat("\x00", 8), uint8(2))
	f.Add("\xff\xff"+strings.Repeat("\xff", 8)+"\x01", uint8(1))
	f.Fuzz(func(t *testing.T, reply string, buckets uint8) {
		g := group{items: make([]item, buckets), cmd: redis.NewCmd(t.Context())}
		g.cmd.SetVal(reply)
		err := g.answer()
		_, malformed := errors.AsType[*ReplyError](err)
		if exact := len(reply) == replySize*len(g.items); exact != (err == nil) || malformed == exact {
			t.Errorf("%d bytes for %d buckets: %v", len(reply), buckets, err)
		}
	})
}
