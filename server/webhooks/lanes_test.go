package webhooks

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// laneModel is what a sequence of calls should have made of lanes.
type laneModel struct {
	lanes     *lanes
	now       time.Time
	endpoints []uuid.UUID
	accepted  map[uuid.UUID]bool // by delivery: taken yet
	flying    []hint
	parked    map[uuid.UUID]int // put off, by endpoint
}

func newLaneModel(places int) *laneModel {
	m := &laneModel{now: time.Unix(1767225600, 0), accepted: make(map[uuid.UUID]bool), parked: make(map[uuid.UUID]int)}
	m.lanes = newLanes(places, func() time.Time { return m.now })
	for range 5 {
		m.endpoints = append(m.endpoints, uuid.New())
	}
	return m
}

func (m *laneModel) check(t *rapid.T) {
	inFlight, doubtful, queued := 0, 0, 0
	for _, own := range m.lanes.byID {
		inFlight += own.inFlight
		queued += len(own.queue)
		if !own.proven {
			doubtful += own.inFlight
		}
		if own.size < minWindow || own.size > maxWindow || own.inFlight < 0 {
			t.Fatalf("window %d, in flight %d", own.size, own.inFlight)
		}
	}
	if inFlight != m.lanes.inFlight || inFlight != len(m.flying) || doubtful != m.lanes.doubtful || queued != m.lanes.queued {
		t.Fatalf("counted %d in flight, %d in doubt, %d queued; recorded %d (%d), %d, %d", inFlight, doubtful, queued,
			m.lanes.inFlight, len(m.flying), m.lanes.doubtful, m.lanes.queued)
	}
	if inFlight > m.lanes.places {
		t.Fatalf("%d in flight, %d places", inFlight, m.lanes.places)
	}
	for endpoint, n := range m.parked {
		if n > 0 && m.lanes.behind[endpoint] == nil {
			t.Fatalf("%d deliveries were put off and forgotten", n)
		}
	}
}

// recall does for one lane what recall and sort do, with a store that holds what was put off.
func (m *laneModel) recall(t *rapid.T, wish appetite) {
	found := min(wish.room, m.parked[wish.endpoint])
	after := wish.after
	if found > 0 {
		after = m.now
	}
	m.lanes.recalled(wish, found == wish.room, after)
	for range found {
		h := hint{delivery: uuid.New(), endpoint: wish.endpoint}
		if _, queued := m.lanes.push(h); !queued {
			t.Fatalf("a lane that has room for %d does not take %d", wish.room, found)
		}
		m.accepted[h.delivery] = false
		m.parked[wish.endpoint]--
	}
}

// giveBack takes a hint out of flight that no try could begin for.
func (m *laneModel) giveBack(t *rapid.T, to func([]hint)) {
	if len(m.flying) == 0 {
		return
	}
	h := m.land(t)
	m.accepted[h.delivery] = false
	to([]hint{h})
}

func (m *laneModel) land(t *rapid.T) hint {
	at := rapid.IntRange(0, len(m.flying)-1).Draw(t, "landing")
	h := m.flying[at]
	m.flying = append(m.flying[:at], m.flying[at+1:]...)
	return h
}

func TestLanesLoseNothingAndKeepTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newLaneModel(rapid.IntRange(1, 40).Draw(t, "places"))
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				h := hint{delivery: uuid.New(), endpoint: rapid.SampledFrom(m.endpoints).Draw(t, "endpoint")}
				switch park, queued := m.lanes.push(h); {
				case queued:
					m.accepted[h.delivery] = false
				case park < minPark || park > maxPark:
					t.Fatalf("put off by %s", park)
				default:
					m.parked[h.endpoint]++
					m.lanes.setBehind([]uuid.UUID{h.endpoint})
				}
			},
			"recall": func(t *rapid.T) {
				for _, wish := range m.lanes.hungry() {
					m.recall(t, wish)
				}
			},
			"take": func(t *rapid.T) {
				most := rapid.IntRange(1, 30).Draw(t, "most")
				taken := m.lanes.take(most)
				if len(taken) > most {
					t.Fatalf("%d taken, asked for %d", len(taken), most)
				}
				for _, h := range taken {
					if already, known := m.accepted[h.delivery]; !known || already {
						t.Fatal("a hint came out that was not in there")
					}
					m.accepted[h.delivery] = true
				}
				m.flying = append(m.flying, taken...)
			},
			"leave": func(t *rapid.T) {
				if len(m.flying) == 0 {
					return
				}
				began := m.now
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 10_000).Draw(t, "ms")) * time.Millisecond)
				m.lanes.leave(m.land(t).endpoint, rapid.Bool().Draw(t, "delivered"), began)
			},
			"requeue":  func(t *rapid.T) { m.giveBack(t, m.lanes.requeue) },
			"postpone": func(t *rapid.T) { m.giveBack(t, m.lanes.postpone) },
			"resume":   func(*rapid.T) { m.lanes.resume() },
			"abandon": func(t *rapid.T) {
				if len(m.flying) > 0 {
					m.lanes.abandon(m.land(t).endpoint)
				}
			},
			"forget": func(*rapid.T) { m.lanes.forget(m.now.Add(time.Second)) },
			"":       m.check,
		})
		for _, h := range m.lanes.drain() {
			m.accepted[h.delivery] = true
		}
		for _, out := range m.accepted {
			if !out {
				t.Fatal("a hint is lost")
			}
		}
	})
}

// grown returns lanes with one endpoint whose window has grown to size.
func grown(t *testing.T, size int) (*lanes, uuid.UUID, time.Time) {
	t.Helper()
	now := time.Unix(1767225600, 0)
	l, endpoint := newLanes(1024, func() time.Time { return now }), uuid.New()
	for range 100 {
		for range size {
			l.push(hint{delivery: uuid.New(), endpoint: endpoint})
		}
		for range l.take(size) {
			l.leave(endpoint, true, now)
		}
		if l.byID[endpoint].size >= size {
			l.drain()
			return l, endpoint, now
		}
	}
	t.Fatalf("the window stayed at %d", l.byID[endpoint].size)
	return nil, uuid.Nil, now
}

func TestAWindowIsHalvedOnceForTriesThatFailTogether(t *testing.T) {
	t.Parallel()
	l, endpoint, now := grown(t, 32)
	began := now.Add(-time.Second)
	before := l.byID[endpoint].size
	for range before {
		l.push(hint{delivery: uuid.New(), endpoint: endpoint})
	}
	taken := l.take(before)
	for range taken {
		l.leave(endpoint, false, began)
	}
	if got := l.byID[endpoint].size; got != before/2 {
		t.Errorf("window %d after one bad round, want %d", got, before/2)
	}
}

func TestAFullLanePutsDeliveriesOffOneAfterTheOther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	l, endpoint := newLanes(1024, func() time.Time { return now }), uuid.New()
	push := func() (time.Duration, bool) { return l.push(hint{delivery: uuid.New(), endpoint: endpoint}) }
	push()
	for range l.take(1) {
		l.leave(endpoint, false, now.Add(-time.Second))
	}
	for range min(maxDoubtfulLane, int(maxLaneWait/time.Second)) {
		if _, queued := push(); !queued {
			t.Fatal("put off while there is room")
		}
	}
	last := time.Duration(0)
	for range 20 {
		park, queued := push()
		if queued || park <= last {
			t.Fatalf("put off by %s after %s: each one comes back after the one before", park, last)
		}
		last = park
	}
	for range 2 * int(maxPark/parkStep) {
		if park, _ := push(); park > maxPark {
			t.Fatalf("put off by %s, at most %s", park, maxPark)
		}
	}
}

func TestALaneOfWhichNothingIsKnownHoldsLittle(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	l, endpoint := newLanes(1024, func() time.Time { return now }), uuid.New()
	for n := range 2 * maxUntriedLane {
		if _, queued := l.push(hint{delivery: uuid.New(), endpoint: endpoint}); queued != (n < maxUntriedLane) {
			t.Fatalf("hint %d queued: %t, want %d in all", n+1, queued, maxUntriedLane)
		}
	}
	if wishes := l.hungry(); len(wishes) != 0 {
		t.Fatalf("a lane that is full asks for %d more", wishes[0].room)
	}
}

func TestALaneThatProvesItselfRecallsWhatWasPutOff(t *testing.T) {
	t.Parallel()
	l, endpoint, now := grown(t, 32)
	room := l.byID[endpoint].room(0)
	for range room + 1 {
		l.push(hint{delivery: uuid.New(), endpoint: endpoint})
	}
	l.setBehind([]uuid.UUID{endpoint})
	if behind, _ := l.changes(); len(behind) != 1 || behind[0] != endpoint {
		t.Fatalf("tells of %v, want the endpoint", behind)
	}
	l.drain()
	wishes := l.hungry()
	if len(wishes) != 1 || wishes[0].endpoint != endpoint || wishes[0].room != room {
		t.Fatalf("asks for %+v, want room for %d", wishes, room)
	}
	l.recalled(wishes[0], false, now)
	if wishes = l.hungry(); len(wishes) != 1 || !wishes[0].after.IsZero() {
		t.Fatalf("asks for %+v, want to begin anew after the last", wishes)
	}
	l.recalled(wishes[0], false, time.Time{})
	if behind, caughtUp := l.changes(); len(l.hungry()) != 0 || len(behind) != 0 || len(caughtUp) != 1 {
		t.Fatalf("tells of %v and %v, and is hungry for %v, when nothing is put off", behind, caughtUp, l.hungry())
	}
	l.setBehind([]uuid.UUID{endpoint})
	if len(l.hungry()) != 1 {
		t.Fatal("does not ask for what another worker put off")
	}
}

func TestALaneIsNotReadAnewAtOnceAfterALongRead(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	l, endpoint := newLanes(8, func() time.Time { return now }), uuid.New()
	l.setBehind([]uuid.UUID{endpoint})
	wish := l.hungry()[0]
	l.rest(endpoint, time.Second)
	l.recalled(wish, false, time.Time{}) // nothing is put off
	l.setBehind([]uuid.UUID{endpoint})   // and now something is
	if wishes := l.hungry(); len(wishes) != 0 {
		t.Errorf("reads anew at once: %+v", wishes)
	}
	now = now.Add(restFactor * time.Second)
	if wishes := l.hungry(); len(wishes) != 1 {
		t.Fatalf("%d lanes to read after the rest, want 1", len(wishes))
	}
	l.rest(endpoint, time.Second)
	l.recalled(wish, true, now) // it goes on where it is
	if wishes := l.hungry(); len(wishes) != 1 || !wishes[0].after.Equal(now) {
		t.Errorf("does not read on: %+v", wishes)
	}
}
