package gate_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// BenchmarkCheck is the hot path on a real Redis: 64 requests at once, spread over keys that never run dry.
// keys/call is how many keys a script call carried.
func BenchmarkCheck(b *testing.B) {
	for _, count := range []int{1, 1000} {
		for _, inFlight := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("keys=%d/calls=%d", count, inFlight), func(b *testing.B) {
				rdb := testkit.OpenRedis(b, testkit.RedisURL(b), gate.ClientOptions)
				benchmarkCheck(b, rdb, count, inFlight)
			})
		}
	}
}

func benchmarkCheck(b *testing.B, rdb redis.UniversalClient, count, inFlight int) {
	b.Helper()
	h := newHouseOn(b, rdb, "test:"+uuid.NewString()+":", func(c *gate.Config) { c.InFlight = inFlight })
	h.tier(b, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	testkit.Run(b, h.gate.Run)
	headers := make([][]byte, count)
	for i := range headers {
		headers[i] = bearer(h.create(b, "endless").Key)
		if d := h.gate.Check(b.Context(), headers[i], client); d.Outcome != gate.Allowed {
			b.Fatalf("got %+v", d)
		}
	}
	var next, refused atomic.Int64
	b.SetParallelism(32) // times GOMAXPROCS
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		i := int(next.Add(7919))
		for p.Next() {
			i++
			if d := h.gate.Check(b.Context(), headers[i%count], client); d.Outcome != gate.Allowed {
				refused.Add(1)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	if refused.Load() > 0 {
		b.Errorf("%d refused", refused.Load())
	}
}
