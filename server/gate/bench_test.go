package gate_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
)

// BenchmarkCheck measures the hot path on a real Redis: 32 clients per processor at once, spread over keys that never
// reach their limit.
func BenchmarkCheck(b *testing.B) {
	for _, count := range []int{1, 1000} {
		for _, inFlight := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("keys=%d/calls=%d", count, inFlight), func(b *testing.B) {
				benchmarkCheck(b, count, inFlight)
			})
		}
	}
}

func benchmarkCheck(b *testing.B, count, inFlight int) {
	b.Helper()
	e := newEnv(b, gatetest.Config{Limits: ratelimit.Config{InFlight: inFlight}})
	e.tier(b, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	headers := make([][]byte, count)
	for i := range headers {
		headers[i] = bearer(e.create(b, "endless").Key)
		if d := e.gate.Check(b.Context(), headers[i], client); d.Outcome != gate.Allowed {
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
			if d := e.gate.Check(b.Context(), headers[i%count], client); d.Outcome != gate.Allowed {
				refused.Add(1)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	if refused.Load() > 0 {
		b.Errorf("%d refused", refused.Load())
	}
}
