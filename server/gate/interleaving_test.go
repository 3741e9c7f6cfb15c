package gate

import (
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/race"
)

// world is a small model of everything that may happen to one key: a database, the real script on a real Redis, two
// loaders, two announcers, and the accidents. Each actor is a list of steps that run in order; the test runs every
// interleaving of all actors.
type world struct {
	t     *testing.T
	redis *scriptClient

	version  int64 // in the database
	revoked  bool
	answered bool // the revocation was answered

	tickets [2]string
	terms   [2]string
	loaded  [2]keys.Record
	base    keys.Record
}

func (w *world) read() keys.Record {
	record := w.base
	record.Version, record.Revoked = w.version, w.revoked
	return record
}

// loader takes a ticket, reads the database, and puts what it read.
func loader(i int) []func(*world) {
	return []func(*world){
		func(w *world) { w.tickets[i], w.terms[i] = w.redis.ticket(w.t), w.redis.term },
		func(w *world) { w.loaded[i] = w.read() },
		func(w *world) {
			// Another server does not know the script by the name that this loader has for it.
			if w.tickets[i] != "" && w.terms[i] == w.redis.term {
				w.redis.put(w.t, w.tickets[i], w.loaded[i])
			}
		},
	}
}

// revoker commits, announces, answers.
func revoker() []func(*world) {
	return []func(*world){
		func(w *world) { w.revoked, w.version = true, w.version+1 },
		func(w *world) { w.redis.announce(w.t, w.read()); w.answered = true },
	}
}

// tierer changes the tier: the version that it announces may be older than what is announced meanwhile.
func tierer() []func(*world) {
	var committed keys.Record
	return []func(*world){
		func(w *world) { w.version++; committed = w.read() },
		func(w *world) { w.redis.announce(w.t, committed) },
	}
}

// accident removes whatever Redis holds: eviction, expiry, a flush.
func accident() []func(*world) {
	return []func(*world){func(w *world) { w.redis.rdb.Del(w.t.Context(), w.redis.name) }}
}

// failover brings up a replica that lags: what Redis holds is what it held at some earlier step, and a new term begins.
func failover() []func(*world) {
	var held string
	return []func(*world){
		func(w *world) { held = w.redis.held() },
		func(w *world) {
			w.redis.rdb.Del(w.t.Context(), w.redis.name)
			if held != "" {
				w.redis.rdb.HSet(w.t.Context(), w.redis.name, w.redis.key.field(), held)
			}
			w.redis.term = termBytes(2)
		},
	}
}

// sweeping has so much time pass that everything is past, and deletes it. Then the clock is set back: what was past would
// not be any more.
func sweeping() []func(*world) {
	return []func(*world){
		func(w *world) { w.redis.now += 2 * time.Hour.Microseconds(); w.redis.sweep(w.t) },
		func(w *world) { w.redis.now -= 2 * time.Hour.Microseconds() },
	}
}

// ageing is sweeping without the sweep: what is past stays there, and comes back with the clock.
func ageing() []func(*world) {
	return []func(*world){
		func(w *world) { w.redis.now += 2 * time.Hour.Microseconds() },
		func(w *world) { w.redis.now -= 2 * time.Hour.Microseconds() },
	}
}

// TestNoInterleavingResurrectsAKey runs each order of the actors' steps. After the revocation was answered, no check may
// find the key active, not after any later step either.
func TestNoInterleavingResurrectsAKey(t *testing.T) {
	c := newScriptClient(t)
	for name, actors := range map[string]func() [][]func(*world){
		"two loaders":            func() [][]func(*world) { return [][]func(*world){loader(0), loader(1), revoker()} },
		"loader and tier change": func() [][]func(*world) { return [][]func(*world){loader(0), tierer(), revoker()} },
		"and the record lost":    func() [][]func(*world) { return [][]func(*world){loader(0), tierer(), revoker(), accident()} },
		"failover and loader":    func() [][]func(*world) { return [][]func(*world){loader(0), tierer(), revoker(), failover()} },
		"and the sweep":          func() [][]func(*world) { return [][]func(*world){loader(0), tierer(), revoker(), sweeping()[:1]} },
		"loader and the clock":   func() [][]func(*world) { return [][]func(*world){loader(0), revoker(), ageing()} },
	} {
		t.Run(name, func(t *testing.T) {
			schedules := interleavings(lengthsOf(actors()))
			for i, schedule := range schedules {
				if skipped(i) {
					continue
				}
				runSchedule(t, c, actors(), schedule, true) // starting with the key in Redis
				if len(schedules) < 5000 || i%5 == 0 {
					runSchedule(t, c, actors(), schedule, false) // and without
				}
			}
			t.Logf("%d interleavings", len(schedules))
		})
	}
}

func runSchedule(t *testing.T, c *scriptClient, actors [][]func(*world), schedule []int, known bool) {
	t.Helper()
	w := newWorld(t, c, known)
	next := make([]int, len(actors))
	for at, actor := range schedule {
		c.now++
		actors[actor][next[actor]](w)
		next[actor]++
		if v := c.check(t, 1); w.answered && v.status == statusActive {
			t.Fatalf("active after the revocation: schedule %v, step %d", schedule, at)
		}
	}
	// Whatever happened, the next load settles it.
	if ticket := c.ticket(t); ticket != "" {
		c.put(t, ticket, w.read())
	}
	if v := c.check(t, 1); v.status != statusRevoked {
		t.Fatalf("after a fresh load: got %+v, schedule %v", v, schedule)
	}
}

// TestNoInterleavingLosesATierChange: once a tier change is announced, no check applies an older tier.
func TestNoInterleavingLosesATierChange(t *testing.T) {
	c := newScriptClient(t)
	change := func() []func(*world) {
		return []func(*world){
			func(w *world) { w.version++; w.base.Tier.Requests++ },
			func(w *world) { w.redis.announce(w.t, w.read()); w.answered = true },
		}
	}
	for name, actors := range map[string]func() [][]func(*world){
		"two loaders, and the record lost": func() [][]func(*world) { return [][]func(*world){loader(0), loader(1), change(), accident()} },
		"and the sweep":                    func() [][]func(*world) { return [][]func(*world){loader(0), change(), sweeping(), accident()} },
		"and the clock":                    func() [][]func(*world) { return [][]func(*world){loader(0), change(), ageing(), accident()} },
		"and a failover":                   func() [][]func(*world) { return [][]func(*world){loader(0), change(), failover()} },
	} {
		t.Run(name, func(t *testing.T) {
			schedules := interleavings(lengthsOf(actors()))
			for i, schedule := range schedules {
				if skipped(i) {
					continue
				}
				for _, known := range []bool{false, true} {
					runTierChange(t, c, actors(), schedule, known, 1)
					if len(schedules) < 2000 { // a check for no token writes nothing: what is past stays past
						runTierChange(t, c, actors(), schedule, known, 0)
					}
				}
			}
		})
	}
}

func runTierChange(t *testing.T, c *scriptClient, actors [][]func(*world), schedule []int, known bool, tokens int) {
	t.Helper()
	w := newWorld(t, c, known)
	next := make([]int, len(actors))
	for at, actor := range schedule {
		c.now++
		actors[actor][next[actor]](w)
		next[actor]++
		v := c.check(t, tokens)
		if w.answered && v.status == statusActive && v.rate.requests*v.rate.scale != 11 {
			t.Fatalf("old tier after the change: schedule %v, step %d", schedule, at)
		}
	}
}

// skipped reports whether a schedule is not in the sample that the race detector and -short get. `make test` runs all
// schedules without the detector.
func skipped(schedule int) bool { return (race.Enabled || testing.Short()) && schedule%7 != 0 }

// newWorld begins with an empty Redis, or with the key in it.
func newWorld(t *testing.T, c *scriptClient, known bool) *world {
	t.Helper()
	c.rdb.Del(t.Context(), c.name)
	c.term = termBytes(1)
	w := &world{t: t, redis: c, version: 1, base: someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 10})}
	if known {
		c.put(t, c.ticket(t), w.base)
	}
	return w
}

func lengthsOf(actors [][]func(*world)) []int {
	lengths := make([]int, 0, len(actors))
	for _, actor := range actors {
		lengths = append(lengths, len(actor))
	}
	return lengths
}

// interleavings returns every order of the steps of actors with so many steps each.
func interleavings(lengths []int) [][]int {
	left := 0
	for _, n := range lengths {
		left += n
	}
	if left == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for actor, n := range lengths {
		if n == 0 {
			continue
		}
		rest := append([]int{}, lengths...)
		rest[actor]--
		for _, tail := range interleavings(rest) {
			all = append(all, append([]int{actor}, tail...))
		}
	}
	return all
}

func TestInterleavingsAreAll(t *testing.T) {
	if got := len(interleavings([]int{3, 3, 2})); got != 560 {
		t.Errorf("got %d", got)
	}
}
