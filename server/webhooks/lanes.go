package webhooks

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// firstWindow is what an endpoint begins with, minWindow what is left to one that keeps failing.
	firstWindow = 8
	minWindow   = 1
	// maxWindow is the most deliveries in flight to one endpoint from one worker.
	maxWindow = 64
	// queueFactor bounds a lane's queue: so many windows' worth of hints wait here, the rest in Postgres.
	queueFactor = 4
	// minPark and maxPark bound how long a delivery that found its lane full is put off.
	minPark = 50 * time.Millisecond
	maxPark = 30 * time.Second
)

// lanes hold, for each endpoint, which hints wait and how many tries may be in flight: one more after a window of
// successes, half after a failure (AIMD). A slow or dead receiver thus keeps few of the worker's places, and what waits
// for it waits in its own lane. Lanes take turns.
type lanes struct {
	mu     sync.Mutex
	byID   map[uuid.UUID]*lane
	turn   []*lane // lanes with something queued, in the order of their turns
	queued int
	// ready is signalled when there may be something to take.
	ready chan struct{}
}

type lane struct {
	endpoint       uuid.UUID
	queue          []hint
	size, inFlight int
	// credit counts successes since the window last grew; pace is about how long a try takes.
	credit int
	pace   time.Duration
}

func newLanes() *lanes {
	return &lanes{byID: make(map[uuid.UUID]*lane), ready: make(chan struct{}, 1)}
}

func (l *lanes) signal() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// push queues a hint. When its lane is full it returns how long to put the delivery off: about the time that the lane
// needs for what it holds.
func (l *lanes) push(h hint) (park time.Duration, queued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.byID[h.endpoint]
	if own == nil {
		own = &lane{endpoint: h.endpoint, size: firstWindow}
		l.byID[h.endpoint] = own
	}
	if len(own.queue) >= queueFactor*own.size {
		drain := own.pace * time.Duration(len(own.queue)/own.size+1)
		return min(max(drain, minPark), maxPark), false
	}
	if len(own.queue) == 0 {
		l.turn = append(l.turn, own)
	}
	own.queue = append(own.queue, h)
	l.queued++
	l.signal()
	return 0, true
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
			if len(taken) < most && own.inFlight < own.size {
				taken = append(taken, own.queue[0])
				own.queue = own.queue[1:]
				own.inFlight++
				l.queued--
				progress = true
			}
			if len(own.queue) > 0 {
				l.turn = append(l.turn, own)
			}
		}
	}
	return taken
}

// leave says how a try went and how long it took.
func (l *lanes) leave(endpoint uuid.UUID, delivered bool, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.byID[endpoint]
	own.pace += (took - own.pace) / 8
	switch {
	case !delivered:
		own.size, own.credit = max(own.size/2, minWindow), 0
	case own.size < maxWindow:
		if own.credit++; own.credit >= own.size {
			own.size, own.credit = own.size+1, 0
		}
	}
	l.release(own)
}

// abandon gives back the place of a hint that led to no try.
func (l *lanes) abandon(endpoint uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(l.byID[endpoint])
}

// release frees a place; a lane about which nothing is worth remembering goes.
func (l *lanes) release(own *lane) {
	own.inFlight--
	if own.inFlight == 0 && len(own.queue) == 0 && own.size == firstWindow {
		delete(l.byID, own.endpoint)
	}
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
	var rest []hint
	for _, own := range l.turn {
		rest = append(rest, own.queue...)
		own.queue = nil
	}
	l.turn, l.queued = nil, 0
	return rest
}
