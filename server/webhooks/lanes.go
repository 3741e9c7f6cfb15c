package webhooks

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// firstWindow is what an endpoint begins with: enough to learn whether it answers. minWindow is what is left to one
	// that keeps failing, maxWindow the most deliveries in flight to one endpoint from one worker.
	firstWindow = 2
	minWindow   = 1
	maxWindow   = 128
	// fairShare bounds one endpoint by what the others leave: it may hold an eighth of the free places and one more.
	// However many receivers hang at once, a place is left for the next one.
	fairShare = 8
	// doubtfulShare bounds the places of all endpoints whose last try failed, or that were not tried yet, together.
	doubtfulShare = 2
	// maxLane bounds the hints that wait in one lane, maxDoubtfulLane those of an endpoint whose last try failed,
	// maxUntriedLane those of one of which no outcome is known yet: it may answer in a moment, or hang. Hints are ids: a
	// long queue costs little, and a burst for one endpoint need not go back to Postgres.
	maxLane         = 16_384
	maxDoubtfulLane = 64
	maxUntriedLane  = 512
	// crowdedAt is how many hints may wait in all lanes before each is kept short, maxCrowdedLane how many a lane of a
	// receiver that answers holds then; from packedAt on endpoints in doubt hold none.
	crowdedAt      = maxQueued / 4
	maxCrowdedLane = 1024
	packedAt       = maxQueued / 2
	// maxLaneWait bounds a queue by the time that it needs: what would wait longer waits in Postgres, where it is for
	// whichever worker has room for it first.
	maxLaneWait = 2 * time.Second
	// minPark and maxPark bound how long a delivery that found its lane full is put off, parkStep is how much longer each
	// one is than the one before. They are recalled as soon as their lane has room (recall.go): what comes back by itself
	// comes back in case nobody recalls it, and no faster than the stores hardly feel.
	minPark  = 45 * time.Second
	maxPark  = time.Hour
	parkStep = 4 * time.Millisecond
)

// lanes hold, for each endpoint, which hints wait and how many tries may be in flight: twice as many with each round of
// successes until the first failure, from then on one more a round, and half after a failure (AIMD with a slow start).
// A slow or dead receiver thus keeps few of the worker's places, and what waits for it waits in its own lane. Lanes take
// turns.
type lanes struct {
	now func() time.Time

	mu   sync.Mutex
	byID map[uuid.UUID]*lane
	turn []*lane // lanes with something queued, in the order of their turns
	// postponed are hints that are looked at again by and by.
	postponed []hint
	// behind are the lanes of endpoints of whose deliveries some may be put off, by whatever worker; caughtUp are those of
	// which none are any more.
	behind   map[uuid.UUID]*lane
	caughtUp []uuid.UUID
	// leastPark is the shortest that a delivery is put off.
	leastPark time.Duration
	// places is how many tries may be in flight, inFlight how many are, doubtful how many of them are to endpoints in
	// doubt.
	places, inFlight, doubtful int
	queued                     int
	// ready is signalled when there may be something to take.
	ready chan struct{}
}

type lane struct {
	endpoint       uuid.UUID
	queue          []hint
	size, inFlight int
	// tried: an outcome is known. proven: the last one was a success. slowStart: none was a failure.
	tried, proven, slowStart bool
	// credit counts successes since the window last grew; pace is about how long a try takes.
	credit int
	pace   time.Duration
	// cutAt is when the window was last halved: tries that were under way then have had their say.
	cutAt time.Time
	// slot is when the delivery that was put off last comes back; the next one comes a little later. after is how far
	// recalls have read; they do not begin anew before restsUntil.
	slot, after, restsUntil time.Time
	// heard is when a hint or an outcome last came.
	heard time.Time
}

func newLanes(places int, now func() time.Time) *lanes {
	return &lanes{
		now: now, places: places, leastPark: minPark, byID: make(map[uuid.UUID]*lane), behind: make(map[uuid.UUID]*lane),
		ready: make(chan struct{}, 1),
	}
}

func (l *lanes) signal() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// lane returns an endpoint's lane. The caller holds the lock.
func (l *lanes) lane(endpoint uuid.UUID) *lane {
	own := l.byID[endpoint]
	if own == nil {
		own = &lane{endpoint: endpoint, size: firstWindow, slowStart: true, heard: l.now()}
		l.byID[endpoint] = own
	}
	return own
}

// push queues a hint. When its lane is full it returns how long to put the delivery off: each one a little longer than
// the one before.
func (l *lanes) push(h hint) (park time.Duration, queued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lane(h.endpoint)
	own.heard = l.now()
	if len(own.queue) >= own.room(l.queued) {
		return l.park(own), false
	}
	l.enqueue(own, h)
	l.signal()
	return 0, true
}

// room is how many hints a lane may hold while so many wait in all of them. In a crowd endpoints in doubt hold next to
// none: what waits for them must never keep the worker from reading what comes for the others.
func (own *lane) room(queued int) int {
	most := maxLane
	switch {
	case own.proven && queued >= crowdedAt:
		most = maxCrowdedLane
	case own.proven:
	case queued >= packedAt:
		return 0
	case queued >= crowdedAt:
		return firstWindow // enough to find out whether it answers
	case own.tried:
		most = maxDoubtfulLane
	default:
		most = maxUntriedLane
	}
	if own.pace <= 0 || !own.tried {
		return most
	}
	return min(max(int(maxLaneWait/own.pace)*own.size, 2*own.size), most)
}

func (l *lanes) enqueue(own *lane, h hint) {
	if len(own.queue) == 0 {
		l.turn = append(l.turn, own)
	}
	own.queue = append(own.queue, h)
	l.queued++
}

// park gives out the next slot of a full lane. Beyond maxPark they are spread.
func (l *lanes) park(own *lane) time.Duration {
	now := l.now()
	if first := now.Add(l.leastPark); own.slot.Before(first) {
		own.slot = first
	}
	own.slot = own.slot.Add(parkStep)
	most := max(maxPark, 2*l.leastPark)
	if park := own.slot.Sub(now); park <= most {
		return park
	}
	own.slot = now.Add(most)
	return most/2 + rand.N(most/2)
}

// take removes up to most hints whose lanes have room in their windows, one lane after the other, and counts them as in
// flight.
func (l *lanes) take(most int) []hint {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []hint
	for progress := true; progress && len(taken) < most; {
		progress = false
		round := l.turn
		l.turn = make([]*lane, 0, len(round))
		for _, own := range round {
			if len(taken) < most && l.admits(own) {
				taken = append(taken, own.queue[0])
				own.queue = own.queue[1:]
				l.queued--
				l.count(own, 1)
				progress = true
			}
			if len(own.queue) > 0 {
				l.turn = append(l.turn, own)
			}
		}
	}
	return taken
}

// admits reports whether one more try of a lane may begin.
func (l *lanes) admits(own *lane) bool {
	free := l.places - l.inFlight
	switch {
	case free <= 0, own.inFlight >= own.size, own.inFlight > free/fairShare:
		return false
	case !own.proven && l.doubtful >= max(l.places/doubtfulShare, 1):
		return false
	default:
		return true
	}
}

// count adds n to the tries in flight.
func (l *lanes) count(own *lane, n int) {
	own.inFlight += n
	l.inFlight += n
	if !own.proven {
		l.doubtful += n
	}
}

// leave says how a try went, when it began, and frees its place.
func (l *lanes) leave(endpoint uuid.UUID, delivered bool, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, now := l.byID[endpoint], l.now()
	held := own.inFlight
	own.heard = now
	if took := now.Sub(began); own.tried {
		own.pace += (took - own.pace) / 8
	} else {
		own.tried, own.pace = true, took
	}
	if own.proven != delivered {
		l.count(own, -held) // out under the old name, in again under the new one
		own.proven = delivered
		l.count(own, held)
	}
	if delivered {
		own.grow()
	} else if own.slowStart = false; began.After(own.cutAt) {
		own.size, own.credit, own.cutAt = max(own.size/2, minWindow), 0, now
	}
	l.release(own)
}

// grow widens a window that is used: one that never fills says nothing about what the receiver can take.
func (own *lane) grow() {
	if own.size >= maxWindow || 2*own.inFlight < own.size {
		return
	}
	if own.credit++; own.slowStart || own.credit >= own.size {
		own.size, own.credit = own.size+1, 0
	}
}

// abandon gives back the place of a hint that led to no try.
func (l *lanes) abandon(endpoint uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(l.byID[endpoint])
}

// requeue takes hints back that no try could begin for yet.
func (l *lanes) requeue(hints []hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hints {
		own := l.byID[h.endpoint]
		l.enqueue(own, h)
		l.release(own)
	}
}

// postpone takes hints back that no try could begin for yet, until they are resumed.
func (l *lanes) postpone(hints []hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hints {
		l.release(l.byID[h.endpoint])
	}
	l.postponed = append(l.postponed, hints...)
}

// resume queues what was postponed.
func (l *lanes) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.postponed) == 0 {
		return
	}
	for _, h := range l.postponed {
		l.enqueue(l.lane(h.endpoint), h)
	}
	l.postponed = nil
	l.signal()
}

// release frees a place.
func (l *lanes) release(own *lane) {
	l.count(own, -1)
	l.signal()
}

// backlog is how many hints wait here.
func (l *lanes) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued
}

// drain empties the queues and returns what was in them.
func (l *lanes) drain() []hint {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.postponed
	l.postponed = nil
	for _, own := range l.turn {
		rest = append(rest, own.queue...)
		own.queue = nil
	}
	l.turn, l.queued = nil, 0
	return rest
}

// forget drops idle lanes that were last heard of before a time: endpoints come and go, memory stays.
func (l *lanes) forget(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, own := range l.byID {
		if l.behind[id] == nil && own.inFlight == 0 && len(own.queue) == 0 && own.heard.Before(before) {
			delete(l.byID, id)
		}
	}
}
