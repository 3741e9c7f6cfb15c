package gate

import (
	"testing"
	"time"

	"examprep.dev/server/keys"
)

// jump sets Redis's clock an hour back, or on.
func jump(by time.Duration) []func(*world) {
	return []func(*world){func(w *world) { w.redis.now += by.Microseconds() }}
}

// tierChange commits a tier of 11 requests, announces it, answers.
func tierChange() []func(*world) {
	return []func(*world){
		func(w *world) { w.version++; w.base.Tier.Requests++ },
		func(w *world) { w.redis.announce(w.t, w.read()); w.answered = true },
	}
}

// rotation is what a rotation with an overlap of a minute does to the old key: an end, at a higher version.
func rotation() []func(*world) {
	return []func(*world){
		func(w *world) {
			w.version++
			w.base.ExpiresAt = time.UnixMicro(w.redis.now).Add(time.Minute)
		},
		func(w *world) { w.redis.announce(w.t, w.read()); w.answered = true },
	}
}

// TestNoFailOverOrClockLosesAChange runs every seventeenth order (a prime, so that all kinds of order are met) of a load, a change, a fail-over to an older replica and a jump of
// Redis's clock. Once the change is answered no check may apply what was before it.
func TestNoFailOverOrClockLosesAChange(t *testing.T) {
	const stride = 17
	c := newScriptClient(t)
	for name, change := range map[string]struct {
		actor func() []func(*world)
		lost  func(w *world, v verdict) bool
	}{
		"a revocation": {revoker, func(_ *world, v verdict) bool { return v.status == statusActive }},
		"a tier": {tierChange, func(_ *world, v verdict) bool {
			return v.status == statusActive && v.rate.requests*v.rate.scale != 11
		}},
		"a rotation": {rotation, func(w *world, v verdict) bool {
			return v.status == statusActive && w.redis.now >= w.base.ExpiresAt.UnixMicro()
		}},
	} {
		for when, by := range map[string]time.Duration{"back": -time.Hour, "on": time.Hour} {
			t.Run(name+", the clock goes "+when, func(t *testing.T) {
				for i, schedule := range interleavings([]int{3, 2, 2, 1}) {
					if i%stride != 0 {
						continue
					}
					c.rdb.Del(t.Context(), c.name)
					c.term = termBytes(1)
					w := &world{t: t, redis: c, version: 1, base: someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 1000})}
					c.put(t, c.ticket(t), w.base)
					actors := [][]func(*world){loader(0), change.actor(), failover(), jump(by)}
					next := make([]int, len(actors))
					for at, actor := range schedule {
						c.now++
						actors[actor][next[actor]](w)
						next[actor]++
						if v := c.check(t, 1); w.answered && change.lost(w, v) {
							t.Fatalf("schedule %v, step %d: %+v", schedule, at, v)
						}
					}
				}
			})
		}
	}
}
