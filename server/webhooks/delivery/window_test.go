package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/testkit"
)

// TestWindowsKeepTheirBounds leases, finishes and releases at random, and checks the bounds after each step.
func TestWindowsKeepTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		concurrency := rapid.IntRange(1, 300).Draw(t, "concurrency")
		w := newWindows(concurrency, func() time.Time { return now })
		endpoints := make([]uuid.UUID, rapid.IntRange(1, 12).Draw(t, "endpoints"))
		for i := range endpoints {
			endpoints[i] = uuid.New()
		}
		running := make(map[uuid.UUID]int)
		total := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Second)
			endpoint := rapid.SampledFrom(endpoints).Draw(t, "endpoint")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				w.markDue(endpoint)
			case 1:
				limit := rapid.IntRange(1, 128).Draw(t, "limit")
				granted := 0
				seen := make(map[uuid.UUID]bool)
				for _, g := range w.next(limit) {
					if seen[g.endpoint] {
						t.Fatal("two grants of one endpoint: a lease would take its rows twice")
					}
					seen[g.endpoint] = true
					used := rapid.IntRange(0, g.room).Draw(t, "used")
					w.leased(g, used, used == g.room)
					running[g.endpoint] += used
					total += used
					granted += g.room
				}
				if granted > limit {
					t.Fatalf("%d places granted, at most %d", granted, limit)
				}
			case 2:
				if running[endpoint] > 0 {
					w.finished(endpoint, rapid.Bool().Draw(t, "delivered"), now.Add(-time.Second))
					running[endpoint]--
					total--
				}
			case 3:
				if running[endpoint] > 0 {
					w.release(endpoint)
					running[endpoint]--
					total--
				}
			}
			checkWindows(t, w, running, total)
		}
	})
}

func checkWindows(t *rapid.T, w *windows, running map[uuid.UUID]int, total int) {
	unproven := 0
	for endpoint, own := range w.byID {
		if own.inFlight != running[endpoint] || own.size < minWindow || own.size > maxWindow {
			t.Fatalf("window %+v, in flight %d", own, running[endpoint])
		}
		if !own.healthy {
			unproven += own.inFlight
		}
	}
	if w.inFlight != total || w.inFlight > w.concurrency || w.unprovenInFlight != unproven {
		t.Fatalf("%d of %d in flight, %d unproven; want %d, %d", w.inFlight, w.concurrency, w.unprovenInFlight, total, unproven)
	}
}

// TestWindowsGrantEveryDueEndpointInTheEnd: no due endpoint is forgotten while places are free.
func TestWindowsGrantEveryDueEndpointInTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWindows(rapid.IntRange(1, 64).Draw(t, "concurrency"), time.Now)
		left := make(map[uuid.UUID]int)
		for range rapid.IntRange(1, 20).Draw(t, "endpoints") {
			endpoint := uuid.New()
			left[endpoint] = rapid.IntRange(1, 50).Draw(t, "rows")
			w.markDue(endpoint)
		}
		var flying []uuid.UUID
		for step := 0; len(left) > 0 || len(flying) > 0; step++ {
			if step > 100_000 {
				t.Fatalf("%d endpoints wait for ever", len(left))
			}
			for _, g := range w.next(leaseBatch) {
				used := min(g.room, left[g.endpoint])
				for range used {
					flying = append(flying, g.endpoint)
				}
				if left[g.endpoint] -= used; left[g.endpoint] == 0 {
					delete(left, g.endpoint)
				}
				w.leased(g, used, used == g.room)
			}
			if len(flying) == 0 && len(left) > 0 && len(w.healthy)+len(w.unproven) == 0 {
				t.Fatalf("%d endpoints are not due any more", len(left))
			}
			if len(flying) > 0 {
				n := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				endpoint := flying[n]
				flying = append(flying[:n], flying[n+1:]...)
				w.finished(endpoint, rapid.Bool().Draw(t, "delivered"), time.Now())
			}
		}
	})
}

func TestWindowOfALoneHealthyEndpointGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	w := newWindows(8*maxWindow, time.Now)
	endpoint := uuid.New()
	flying := 0
	for range 40 {
		w.markDue(endpoint)
		for _, g := range w.next(2 * maxWindow) {
			w.leased(g, g.room, true)
			flying += g.room
		}
		for ; flying > 0; flying-- {
			w.finished(endpoint, true, time.Now())
		}
	}
	if size := w.byID[endpoint].size; size < maxWindow*7/8 {
		t.Errorf("window %d, want about %d", size, maxWindow)
	}
}

func TestFailuresOfOneRoundHalveAWindowOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := newWindows(1024, func() time.Time { return now })
	endpoint := uuid.New()
	w.markDue(endpoint)
	w.byID[endpoint].size = 64
	g := w.next(64)[0]
	w.leased(g, g.room, true)
	began := now
	now = now.Add(time.Second)
	for range g.room {
		w.finished(endpoint, false, began)
	}
	if size := w.byID[endpoint].size; size != 32 {
		t.Errorf("window %d, want 32", size)
	}
}

func TestHangingEndpointsLeavePlacesForOthers(t *testing.T) {
	t.Parallel()
	w := newWindows(64, time.Now)
	for range 100 {
		w.markDue(uuid.New())
	}
	for grants := w.next(leaseBatch); len(grants) > 0; grants = w.next(leaseBatch) {
		for _, g := range grants {
			w.leased(g, g.room, true)
		}
	}
	if w.inFlight != 32 {
		t.Errorf("%d places are in use by endpoints without a result, want half of 64", w.inFlight)
	}
	for _, own := range w.byID {
		if own.inFlight > firstWindow {
			t.Errorf("an endpoint without a result has %d places, want at most %d", own.inFlight, firstWindow)
		}
	}
}

// TestAWideWindowLeavesPlacesForOthers: however fast an endpoint has been, it takes an eighth of the free places and one more, since
// it can hang from now on.
func TestAWideWindowLeavesPlacesForOthers(t *testing.T) {
	t.Parallel()
	const concurrency = 64
	w := newWindows(concurrency, time.Now)
	endpoint := uuid.New()
	w.byID[endpoint] = &window{endpoint: endpoint, size: maxWindow, healthy: true}
	w.markDue(endpoint)
	grants := w.next(concurrency)
	if len(grants) != 1 || grants[0].room == 0 || grants[0].room > concurrency/endpointShare+1 {
		t.Errorf("granted %+v, want one grant of at most %d places", grants, concurrency/endpointShare+1)
	}
}

// TestBacklogOfHealthyEndpointsLeavesAPartOfEachGrant: a new endpoint and a failing one get places in the next grant, however many
// healthy ones are always due.
func TestBacklogOfHealthyEndpointsLeavesAPartOfEachGrant(t *testing.T) {
	t.Parallel()
	for _, healthy := range []int{1, 4, 8, 64, 500} {
		w := newWindows(defaultConcurrency, time.Now)
		for range healthy {
			endpoint := uuid.New()
			w.byID[endpoint] = &window{endpoint: endpoint, size: maxWindow, healthy: true}
			w.markDue(endpoint)
		}
		round := func() (granted map[uuid.UUID]int, total int) { // the healthy ones stay due
			granted = make(map[uuid.UUID]int)
			for _, g := range w.next(leaseBatch) {
				w.leased(g, g.room, true)
				granted[g.endpoint] += g.room
				total += g.room
			}
			return granted, total
		}
		finish := func(granted map[uuid.UUID]int) {
			for endpoint, n := range granted {
				for range n {
					w.finished(endpoint, w.byID[endpoint].healthy, time.Now())
				}
			}
		}
		for range 20 {
			granted, _ := round()
			finish(granted)
		}
		fresh, failing := uuid.New(), uuid.New()
		w.byID[failing] = &window{endpoint: failing, size: minWindow}
		w.markDue(fresh, failing)
		granted, total := round()
		if granted[fresh] != firstWindow || granted[failing] != minWindow {
			t.Errorf("beside %d healthy endpoints the new one has %d places and the failing one %d, want %d and %d",
				healthy, granted[fresh], granted[failing], firstWindow, minWindow)
		}
		if healthy >= 8 && total != leaseBatch {
			t.Errorf("beside %d healthy endpoints %d places were granted, want %d", healthy, total, leaseBatch)
		}
		finish(granted)
	}
}

// TestUnprovenEndpointsLeaveMostOfEachGrantToHealthyOnes: hundreds of failing receivers slow a healthy one's backlog by a quarter.
func TestUnprovenEndpointsLeaveMostOfEachGrantToHealthyOnes(t *testing.T) {
	t.Parallel()
	w := newWindows(defaultConcurrency, time.Now)
	for n := range 300 {
		endpoint := uuid.New()
		w.byID[endpoint] = &window{endpoint: endpoint, size: maxWindow, healthy: n < 10}
		w.markDue(endpoint)
	}
	healthy := 0
	for _, g := range w.next(leaseBatch) {
		if w.byID[g.endpoint].healthy {
			healthy += g.room
		}
	}
	if want := leaseBatch - leaseBatch/grantShare; healthy != want {
		t.Errorf("%d of %d places are for healthy endpoints, want %d", healthy, leaseBatch, want)
	}
}

func TestHangingReceiversWithBacklogsDelayNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	hanging, healthy := testkit.StartReceiver(t, held.all), testkit.StartReceiver(t, nil)
	_, good := b.endpoint(t, healthy.URL)
	const concurrency, receivers, backlog, events = 64, 40, 64, 50 // the receivers could hold the places 40 times over
	testkit.Run(t, b.concurrentWorker(t, concurrency, hanging, healthy).Run)
	b.fill(t, good.ID, 1) // then the endpoint counts as healthy
	healthy.Next(t)
	b.until(t, 1, inState, "delivered")
	for n := range receivers {
		_, bad := b.endpoint(t, fmt.Sprintf("%s/%d", hanging.URL, n))
		b.fill(t, bad.ID, backlog)
	}
	for range concurrency / unprovenShare {
		held.await(t)
	}
	b.fill(t, good.ID, events)
	for range events {
		healthy.Next(t)
	}
	b.until(t, 1+events, inState, "delivered")
	if n := len(hanging.Arrived); n != concurrency/unprovenShare {
		t.Errorf("%d attempts hang, want half of %d", n, concurrency)
	}
}

func TestForgottenWindowsAreIdleOnes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := newWindows(64, func() time.Time { return now })
	idle, busy := uuid.New(), uuid.New()
	w.markDue(idle, busy)
	for _, g := range w.next(leaseBatch) {
		w.leased(g, map[uuid.UUID]int{busy: 1}[g.endpoint], false)
	}
	now = now.Add(time.Minute)
	w.forget(now)
	if len(w.byID) != 1 || w.byID[busy] == nil {
		t.Errorf("%d windows are left, want the busy one", len(w.byID))
	}
}
