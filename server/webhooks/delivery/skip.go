package delivery

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// skipTime is how long a worker leaves out a delivery that it could not handle, and an endpoint whose health it could not save;
	// maxSkipped is how many of them.
	skipTime   = 10 * time.Minute
	maxSkipped = 1000
	// maxSkips is how many deliveries of an endpoint are left out one after the other before the endpoint is,
	// for leaveOutTime. That is shorter than skipTime: if it was these deliveries, the next one is leased after it.
	maxSkips     = 3
	leaveOutTime = time.Minute
)

// skipList has the deliveries or endpoints that a worker leaves out, so that they do not keep it from the others.
type skipList struct {
	lasts time.Duration // of an entry

	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func newSkipList(lasts time.Duration) *skipList {
	return &skipList{lasts: lasts, until: make(map[uuid.UUID]time.Time)}
}

// add leaves id out from now on. It drops the oldest entry beyond maxSkipped.
func (s *skipList) add(id uuid.UUID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.until[id]; !known && len(s.until) >= maxSkipped {
		oldest := id
		for other, until := range s.until {
			if first, ok := s.until[oldest]; !ok || until.Before(first) {
				oldest = other
			}
		}
		delete(s.until, oldest)
	}
	s.until[id] = now.Add(s.lasts)
}

// ids returns what is left out.
func (s *skipList) ids(now time.Time) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(s.until))
	for id, until := range s.until {
		if now.After(until) {
			delete(s.until, id)
		} else {
			ids = append(ids, id)
		}
	}
	return ids
}

// counts has a number for each endpoint that has one.
type counts struct {
	mu sync.Mutex
	of map[uuid.UUID]int
}

func newCounts() *counts { return &counts{of: make(map[uuid.UUID]int)} }

// add counts one more for an endpoint, and returns its number.
func (c *counts) add(endpoint uuid.UUID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[endpoint]++
	return c.of[endpoint]
}

func (c *counts) clear(endpoint uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, endpoint)
}
