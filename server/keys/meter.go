package keys

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// meterShards divides the keys, so that few requests of different keys meet at one lock.
	meterShards = 64
	// usageShares divides the keys by whole shards into what is rolled up together: few, since with few keys in use each
	// costs the same as one key. Pods with another number of shares do no harm: then keys of theirs are rolled up at
	// another time.
	usageShares = 8
	// maxTallies bounds what a shard holds, and so the memory of a Meter while the database is away: 262,144 keys and
	// days, and as many that a flush could not write; some 60 MB, and a few more for the last uses that wait to be noted
	// (maxTouches). When half of that is there it is written early: the longer many keys are gathered, the more of them come
	// again, and the fewer rows a request costs.
	maxTallies = 4096

	// statementTimeout bounds one statement of a flush.
	statementTimeout = 10 * time.Second
	// lastFlushTime bounds the tries of the last flush: the process is about to end.
	lastFlushTime = 2 * time.Second
	// lastFlushRetry is the pause between them.
	lastFlushRetry = 100 * time.Millisecond
	// rollUpPace is how often a pod rolls up a share that is due, one at a time, so that the database does not do all of it
	// together. Where one takes longer, the next follows without a pause.
	rollUpPace = 2 * time.Second
	// secondsOfDay holds for UTC days as Unix time counts them.
	secondsOfDay = 24 * 60 * 60
)

// MeterConfig holds a meter's settings.
type MeterConfig struct {
	// Interval is how often counts are written: what a killed process loses at most.
	Interval time.Duration
	// RollUpAge is how old what is written becomes before it is added to the usage: up to twice as old, not counting the
	// time which that takes. The longer, the more of it falls on the same keys, of all pods together.
	RollUpAge time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Registerer takes the meter's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Meter counts the requests of each key by UTC day, and keeps when the key was last used. What it gathered is written
// once an interval by [Meter.Run], so that use costs the request nothing; package keys says what is lost when.
type Meter struct {
	queries   *keysdb.Queries
	rollUps   *keysdb.Queries // planned anew
	interval  time.Duration
	rollUpAge time.Duration
	now       func() time.Time
	early     chan struct{} // holds one: a shard is half full

	shards [meterShards]meterShard

	failures       prometheus.Counter
	rollUpFailures prometheus.Counter
	lost           prometheus.Counter
	looked         atomic.Pointer[look] // the last time

	// flushing is held by a flush; it guards what follows.
	flushing sync.Mutex
	writer   uuid.UUID
	number   int64   // of the last batch
	batches  []batch // on their way; none if all that was taken is written

	// rolling is held by a roll-up; it guards what follows.
	rolling sync.Mutex
	share   int16                   // the last one
	most    map[int16]int32         // batches that a share is asked for at most; rollUpBatches where it says nothing
	used    map[uuid.UUID]time.Time // to be noted on keys' own rows
}

// meterShard is a part of the counts. Counting needs only the shared lock; the whole one is for a key's first use in an
// interval, and for taking the map away.
type meterShard struct {
	mu      sync.RWMutex
	tallies map[use]*tally
	_       [32]byte // keeps the locks of two shards off one cache line
}

// use is a key on a day, counted from 1970-01-01.
type use struct {
	key uuid.UUID
	day int64
}

// tally counts the requests of one use.
type tally struct {
	requests, rateLimited atomic.Int64
	lastUsed              atomic.Int64 // of admitted requests: µs since 1970; 0 for none
}

func (t *tally) add(at time.Time, admitted bool) {
	if !admitted {
		t.rateLimited.Add(1)
		return
	}
	t.requests.Add(1)
	t.lastUsed.Store(at.UnixMicro())
}

// NewMeter returns a meter that writes to pool. It panics when its metrics are registered already.
func NewMeter(pool *pgxpool.Pool, cfg MeterConfig) *Meter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Meter{
		queries: keysdb.New(pool), rollUps: keysdb.New(plannedAnew{pool}), interval: cfg.Interval, rollUpAge: cfg.RollUpAge,
		now: cfg.Now, early: make(chan struct{}, 1), writer: uuid.New(),
		most: map[int16]int32{}, used: map[uuid.UUID]time.Time{},
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_flush_failures_total", Help: "Tries to write the usage of keys that failed; the counts are kept.",
		}),
		rollUpFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_roll_up_failures_total",
			Help: "Tries to add written usage to the keys' days, or to note last uses, that failed; both are kept.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_lost_total", Help: "Requests left out of the usage of keys, because PostgreSQL was away too long.",
		}),
	}
	for i := range m.shards {
		m.shards[i].tallies = map[use]*tally{}
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m.failures, m.rollUpFailures, m.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "examprep_key_usage_oldest_batch_age_seconds",
			Help: "How long the oldest written usage, of any pod, has waited to be added to the keys' days; 0 where none waits, NaN where this pod has not looked for a minute.",
		}, m.oldestAge))
	}
	return m
}

// Count notes a request of a key now: admitted, or refused because the key's allowance was used up. It never waits for
// the database, and allocates only at a key's first request in an interval.
func (m *Meter) Count(key uuid.UUID, admitted bool) {
	at := m.now()
	u := use{key: key, day: at.Unix() / secondsOfDay}
	s := &m.shards[key[len(key)-1]%meterShards]
	s.mu.RLock()
	t := s.tallies[u]
	if t != nil {
		t.add(at, admitted)
	}
	s.mu.RUnlock()
	if t == nil {
		m.countFirst(s, u, at, admitted)
	}
}

func (m *Meter) countFirst(s *meterShard, u use, at time.Time, admitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tallies[u]
	switch {
	case t != nil: // another request was faster
	case len(s.tallies) == maxTallies:
		m.lost.Inc()
		return
	default:
		t = &tally{}
		s.tallies[u] = t
		if len(s.tallies) == maxTallies/2 {
			m.FlushSoon()
		}
	}
	t.add(at, admitted)
}

// FlushSoon has [Meter.Run] write what was counted, without waiting for the end of the interval. A process that is told to
// end calls it at once: while it still answers requests there is time.
func (m *Meter) FlushSoon() {
	select {
	case m.early <- struct{}{}:
	default: // it is going to happen already
	}
}

// Run writes what was counted and rolls up what all pods wrote, until ctx ends, and then the rest. It always returns nil:
// what cannot be written is kept for the next time.
func (m *Meter) Run(ctx context.Context) error {
	var rolling sync.WaitGroup
	rolling.Go(func() { m.keepRollingUp(ctx) })
	m.keepFlushing(ctx)
	rolling.Wait()
	m.flushLast(context.WithoutCancel(ctx))
	return nil
}

func (m *Meter) keepFlushing(ctx context.Context) {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.early:
		case <-ticker.C:
		}
		_ = m.Flush(ctx)
	}
}

// flushLast tries until all is written, or time is up. What is left of that is for rolling it up, bit by bit; another pod
// does what remains.
func (m *Meter) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTime)
	defer cancel()
	retry := time.NewTicker(lastFlushRetry)
	defer retry.Stop()
	for m.Flush(ctx) != nil {
		select {
		case <-retry.C:
		case <-ctx.Done():
			m.giveUp()
			return
		}
	}
	_ = m.rollUpAll(ctx, lastRollUpBatches)
}

// giveUp counts as lost what is still here. What of it is in the database after all, nobody knows.
func (m *Meter) giveUp() {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	m.take()
	m.lost.Add(float64(requests(m.batches)))
}
