package delivery

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// firstWindow is the window of a new endpoint: enough to learn whether it responds. minWindow remains for an endpoint that
	// keeps failing. maxWindow is the most deliveries in flight to one endpoint from one worker.
	firstWindow = 2
	minWindow   = 1
	maxWindow   = 128
	// endpointShare limits an endpoint to an eighth of the free places and one more. However many receivers hang, the next one
	// gets a place.
	endpointShare = 8
	// unprovenShare limits all endpoints whose last attempt failed, or that had no attempt yet, to half of the places together.
	unprovenShare = 2
	// grantShare of each grant is for unproven endpoints first, while both kinds wait. Else the backlog of healthy ones, which is due
	// again and again, keeps a new endpoint and every retry waiting.
	grantShare = 4
	// sinceSlack is how much earlier than the rows of a lease the next lease begins to read: a row's next_attempt_at is when its
	// transaction began, and it is seen when that commits.
	sinceSlack = 10 * time.Second
	// refillShare of a window must be free before more is leased for it, since each lease reads the rows in flight again.
	refillShare = 4
)

// windows decide how many deliveries may be in flight to each endpoint. A window doubles with each round of successes until
// the first failure; then it grows by one a round and is halved by a failure (AIMD with slow start). So a slow or failing
// receiver holds few of the worker's places and delays no other. Deliveries that do not fit stay in PostgreSQL.
type windows struct {
	now         func() time.Time
	concurrency int
	// ready is signalled when next may return something.
	ready chan struct{}

	mu   sync.Mutex
	byID map[uuid.UUID]*window
	// healthy and unproven are the endpoints to lease for, in turn. A due endpoint without room is in neither: it returns with
	// its next result.
	healthy, unproven list
	// inFlight counts all places in use, unprovenInFlight those of unproven endpoints.
	inFlight, unprovenInFlight int
}

type window struct {
	endpoint uuid.UUID
	// size is how many deliveries may be in flight, inFlight how many are. successes counts those since size last grew.
	size, inFlight, successes int
	// due: the endpoint may have due rows. healthy: its last attempt succeeded. slowStart: no attempt failed.
	due, healthy, slowStart bool
	// list is where the window waits for a lease, or nil.
	list *list
	// since is the least next_attempt_at that leases and most sweeps read (windows.advance); zero: all are read.
	since time.Time
	// halvedAt is when a failure last halved the window: attempts that were in flight then do not halve it again.
	halvedAt, lastUsed time.Time
}

// A list is a queue of windows. An entry whose window has changed lists is stale.
type list []*window

func newWindows(concurrency int, now func() time.Time) *windows {
	return &windows{now: now, concurrency: concurrency, byID: make(map[uuid.UUID]*window), ready: make(chan struct{}, 1)}
}

// A grant is room for deliveries to one endpoint: places that are reserved until leased is called.
type grant struct {
	endpoint uuid.UUID
	room     int
	since    time.Time
}

// markDue notes that endpoints may have due rows.
func (w *windows) markDue(endpoints ...uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, endpoint := range endpoints {
		own := w.byID[endpoint]
		if own == nil {
			own = &window{endpoint: endpoint, size: firstWindow, slowStart: true}
			w.byID[endpoint] = own
		}
		own.due, own.lastUsed = true, w.now()
		w.enqueue(own)
	}
}

// found notes that an endpoint has due rows, of which oldest is the least next_attempt_at.
func (w *windows) found(endpoint uuid.UUID, oldest time.Time) {
	w.markDue(endpoint)
	w.mu.Lock()
	defer w.mu.Unlock()
	if own := w.byID[endpoint]; own != nil && oldest.Before(own.since) {
		own.since = oldest
	}
}

// advance notes the least next_attempt_at of rows that were just leased. A lease takes the rows in that order, so what is due before it
// is an exception: a row whose lease has expired, or whose transaction committed late. A sweep that reads all rows finds those.
func (w *windows) advance(endpoint uuid.UUID, oldest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since := oldest.Add(-sinceSlack); since.After(w.byID[endpoint].since) {
		w.byID[endpoint].since = since
	}
}

// known returns the endpoints that have a window, and the since of each.
func (w *windows) known() (endpoints []uuid.UUID, sinces []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for endpoint, own := range w.byID {
		endpoints, sinces = append(endpoints, endpoint), append(sinces, own.since)
	}
	return endpoints, sinces
}

// next reserves up to limit places for endpoints that are due and have room: a part of them for unproven endpoints first, then all
// others for healthy ones, then what is left. A window that gets all that it has room for is no longer due.
func (w *windows) next(limit int) []grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	var grants []grant
	for _, turn := range []struct {
		waiting *list
		leave   int // of limit
	}{{&w.unproven, limit - max(limit/grantShare, 1)}, {&w.healthy, 0}, {&w.unproven, 0}} {
		waiting := turn.waiting
		for len(*waiting) > 0 && limit > turn.leave {
			own := (*waiting)[0]
			room := w.room(own)
			stale := own.list != waiting
			if !stale && room == 0 && own.inFlight == 0 {
				break // no place is free for any window of this list
			}
			*waiting = (*waiting)[1:]
			if stale {
				continue
			}
			own.list = nil
			if refillShare*room < own.inFlight+room {
				continue // finished brings it back
			}
			taken := min(room, limit-turn.leave)
			w.count(own, taken)
			limit -= taken
			grants = addGrant(grants, grant{own.endpoint, taken, own.since})
			if own.due = taken < room; own.due {
				w.enqueue(own)
			}
		}
	}
	if len(grants) > 0 {
		w.signal() // another loop may find more
	}
	return grants
}

// addGrant adds a grant, or adds its places to an earlier one of the same endpoint.
func addGrant(grants []grant, g grant) []grant {
	for i := range grants {
		if grants[i].endpoint == g.endpoint {
			grants[i].room += g.room
			return grants
		}
	}
	return append(grants, g)
}

// leased gives back the places of a grant that were not used. due reports whether the endpoint may have more due rows.
func (w *windows) leased(g grant, used int, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.byID[g.endpoint]
	own.due = own.due || due
	w.count(own, used-g.room)
	w.enqueue(own)
}

// finished frees the place of an attempt and adapts the window to its result.
func (w *windows) finished(endpoint uuid.UUID, delivered bool, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.byID[endpoint]
	own.lastUsed = w.now()
	if own.healthy != delivered {
		held := own.inFlight
		w.count(own, -held)
		own.healthy, own.list = delivered, nil
		w.count(own, held)
	}
	if delivered {
		own.grow()
	} else if own.slowStart = false; began.After(own.halvedAt) {
		own.size, own.successes, own.halvedAt = max(own.size/2, minWindow), 0, own.lastUsed
	}
	w.count(own, -1)
	w.enqueue(own)
}

// release frees the place of a delivery that was leased but not attempted.
func (w *windows) release(endpoint uuid.UUID) { w.leased(grant{endpoint: endpoint, room: 1}, 0, false) }

// forget drops windows without deliveries that were last used before a time.
func (w *windows) forget(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, own := range w.byID {
		if own.inFlight == 0 && own.list == nil && own.lastUsed.Before(before) {
			delete(w.byID, id)
		}
	}
}

// room is how many more deliveries of a window may start.
func (w *windows) room(own *window) int {
	n := 0
	for {
		free, held := w.concurrency-w.inFlight-n, own.inFlight+n
		if free <= 0 || held >= own.size || held > free/endpointShare {
			return n
		}
		if !own.healthy && w.unprovenInFlight+n >= max(w.concurrency/unprovenShare, 1) {
			return n
		}
		n++
	}
}

// count adds n to the deliveries in flight.
func (w *windows) count(own *window, n int) {
	own.inFlight += n
	w.inFlight += n
	if !own.healthy {
		w.unprovenInFlight += n
	}
}

// enqueue lets a due window wait for a lease. It signals also for the others: a place may have become free.
func (w *windows) enqueue(own *window) {
	if own.due && own.list == nil {
		own.list = &w.unproven
		if own.healthy {
			own.list = &w.healthy
		}
		*own.list = append(*own.list, own)
	}
	if len(w.healthy)+len(w.unproven) > 0 {
		w.signal()
	}
}

func (w *windows) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// grow widens a window that is used: one that never fills tells nothing about what the receiver can take.
func (own *window) grow() {
	if own.size >= maxWindow || 2*own.inFlight < own.size {
		return
	}
	if own.successes++; own.slowStart || own.successes >= own.size {
		own.size, own.successes = own.size+1, 0
	}
}
