package usage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres/usagedb"
)

const (
	// meterShards divides the keys, so that requests of different keys rarely contend for one lock.
	meterShards = 64
	// maxCounters bounds a shard, and so the memory of a [Meter] while PostgreSQL is unreachable: 262,144 counters, and as
	// many that a flush could not write; about 60 MB. A shard that is half full is written early. It is large because a
	// row costs less per request the longer a key's requests are gathered.
	maxCounters = 4096
	// secondsPerDay holds for UTC days in Unix time.
	secondsPerDay = 24 * 60 * 60
)

// MeterConfig holds a meter's settings.
type MeterConfig struct {
	// Interval is the time between two writes of the counters. A killed process loses at most that much.
	Interval time.Duration
	// RollUpAge is the age of the oldest batch, of any pod, at which [Meter.Run] adds all batches to key_usage.
	RollUpAge time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Registerer receives the meter's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Meter counts the requests of each key by UTC day, and keeps when the key was last used. [Meter.Run] writes the counts.
type Meter struct {
	pool           *pgxpool.Pool
	queries        *usagedb.Queries
	interval       time.Duration
	rollUpAge      time.Duration
	now            func() time.Time
	flushRequested chan struct{} // holds one
	shards         [meterShards]meterShard
	metrics        metrics
	backlog        atomic.Pointer[backlog] // as last measured

	// flushing is held by a flush; it guards what follows.
	flushing sync.Mutex
	writer   uuid.UUID
	number   int64   // of the last batch
	batches  []batch // not known to be written

	rolling sync.Mutex // held by a roll-up
}

// meterShard holds a part of the counters. Counting takes the shared lock only. The exclusive lock is for the first
// request of a key in an interval, and for draining.
type meterShard struct {
	mu       sync.RWMutex
	counters map[keyDay]*counter
	_        [32]byte // keeps the locks of two shards on different cache lines
}

// keyDay is a key on a day, counted from 1970-01-01.
type keyDay struct {
	key uuid.UUID
	day int64
}

// counter counts the requests of one keyDay.
type counter struct {
	requests, rateLimited atomic.Int64
	lastUsed              atomic.Int64 // of admitted requests: µs since 1970; 0 for none
}

func (c *counter) add(at time.Time, admitted bool) {
	if !admitted {
		c.rateLimited.Add(1)
		return
	}
	c.requests.Add(1)
	c.lastUsed.Store(at.UnixMicro())
}

// NewMeter returns a meter that writes to pool. It panics if its metrics are already registered.
func NewMeter(pool *pgxpool.Pool, cfg MeterConfig) *Meter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Meter{
		pool: pool, queries: usagedb.New(pool), interval: cfg.Interval, rollUpAge: cfg.RollUpAge, now: cfg.Now,
		flushRequested: make(chan struct{}, 1), writer: uuid.New(), metrics: newMetrics(),
	}
	for i := range m.shards {
		m.shards[i].counters = map[keyDay]*counter{}
	}
	if cfg.Registerer != nil {
		m.register(cfg.Registerer)
	}
	return m
}

// Count records a request of a key at this moment: admitted, or refused because the key's allowance was used up. It never
// waits for the database, and allocates only at the first request of a key in an interval.
func (m *Meter) Count(key uuid.UUID, admitted bool) {
	at := m.now()
	id := keyDay{key: key, day: at.Unix() / secondsPerDay}
	s := &m.shards[key[len(key)-1]%meterShards]
	s.mu.RLock()
	c := s.counters[id]
	if c != nil {
		c.add(at, admitted)
	}
	s.mu.RUnlock()
	if c == nil {
		m.addCounter(s, id, at, admitted)
	}
}

func (m *Meter) addCounter(s *meterShard, id keyDay, at time.Time, admitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[id]
	switch {
	case c != nil: // another request was faster
	case len(s.counters) == maxCounters:
		m.metrics.lost.Inc()
		return
	default:
		c = &counter{}
		s.counters[id] = c
		if len(s.counters) == maxCounters/2 {
			m.RequestFlush()
		}
	}
	c.add(at, admitted)
}

// drain returns the counters of the shard, in which no request counts any longer, and leaves it empty.
func (s *meterShard) drain() map[keyDay]*counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	drained := s.counters
	if len(drained) == 0 {
		return nil
	}
	s.counters = make(map[keyDay]*counter, len(drained))
	return drained
}

// RequestFlush makes [Meter.Run] write the counters before the interval ends. A process calls it at the begin of its
// shutdown, because it still has time while it answers requests.
func (m *Meter) RequestFlush() {
	select {
	case m.flushRequested <- struct{}{}:
	default: // one is already requested
	}
}

// Run writes the counters and rolls up the batches of all pods until ctx ends, and then writes and rolls up the rest. It
// always returns nil: counts that cannot be written are kept for the next flush.
func (m *Meter) Run(ctx context.Context) error {
	var rolling sync.WaitGroup
	rolling.Go(func() { m.keepRollingUp(ctx) })
	m.keepFlushing(ctx)
	rolling.Wait()
	m.flushLast(context.WithoutCancel(ctx))
	return nil
}
