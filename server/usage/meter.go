package usage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/usagedb"
)

const (
	// meterShards divides the keys, so that requests of different keys rarely contend for one lock.
	meterShards = 64
	// maxCounters bounds a shard, and so the memory of a [Meter] while PostgreSQL is unreachable: 262,144 counters, and as
	// many that a flush could not write; about 60 MB. A shard that is half full is written early. It is large because a
	// row costs less per request the longer a key's requests are gathered.
	maxCounters = 4096
	// batchKeys bounds a batch, so that a write is short, and a flush that fails has written a part.
	batchKeys = 2048
	// flushTimeout is MeterConfig.FlushTimeout's default.
	flushTimeout = 10 * time.Second
	// lockTimeout is MeterConfig.LockTimeout's default.
	lockTimeout = 500 * time.Millisecond
	// mostRefused is how many batches a meter keeps that PostgreSQL refuses, while it writes others.
	mostRefused = 8
	// lastFlushTime is MeterConfig.LastFlushTime's default.
	lastFlushTime = 2 * time.Second
	// backlogValid is how long the gauges report a measured backlog: other pods can have added it since.
	backlogValid  = time.Minute
	secondsPerDay = 24 * 60 * 60
)

// MeterConfig holds a meter's settings.
type MeterConfig struct {
	// Interval is the time between two writes of the counters. A killed process loses at most that much.
	Interval time.Duration
	// RollUpAge is the age of the oldest batch, of any pod, at which [Meter.Run] adds all batches to key_usage.
	RollUpAge time.Duration
	// FlushTimeout bounds a flush, and a transaction of a roll-up (10 s).
	FlushTimeout time.Duration
	// LockTimeout bounds the wait of a roll-up for one locked row (500 ms).
	LockTimeout time.Duration
	// LastFlushTime bounds the last flush and roll-up (2 s): the process is about to end.
	LastFlushTime time.Duration
	// Now is the clock; nil for time.Now. Registerer receives the meter's metrics; nil for none.
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// Meter counts the requests of each key by UTC day, and keeps when the key was last used. [Meter.Run] writes the counts.
type Meter struct {
	cfg            MeterConfig
	pool           *pgxpool.Pool
	flushRequested chan struct{} // holds one
	shards         [meterShards]shard
	backlog        atomic.Pointer[backlog] // as last measured
	batches        []*batch                // not known to be written; only Flush uses them
	unsure         *batch                  // the first of them, if it can be stored
	writer         uuid.UUID
	number         int64 // of the last batch; only Flush uses it

	flushFailures, rollUpFailures, lost prometheus.Counter
}

// shard holds the counters of a part of the keys.
type shard struct {
	mu       sync.Mutex
	counters map[keyDay]*counter
	_        [48]byte // keeps the locks of two shards on different cache lines
}

// keyDay is a key on a day, counted from 1970-01-01.
type keyDay struct {
	key uuid.UUID
	day int64
}

// counter counts the requests of one keyDay. lastUsed is of admitted requests: µs since 1970; 0 for none.
type counter struct{ requests, rateLimited, lastUsed int64 }

// NewMeter returns a meter that writes to pool. It panics if its metrics are already registered.
func NewMeter(pool *pgxpool.Pool, cfg MeterConfig) *Meter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.LockTimeout = cmp.Or(cfg.LockTimeout, lockTimeout)
	cfg.FlushTimeout, cfg.LastFlushTime = cmp.Or(cfg.FlushTimeout, flushTimeout), cmp.Or(cfg.LastFlushTime, lastFlushTime)
	m := &Meter{cfg: cfg, pool: pool, flushRequested: make(chan struct{}, 1), writer: uuid.New()}
	for i := range m.shards {
		m.shards[i].counters = map[keyDay]*counter{}
	}
	m.register()
	return m
}

// batch holds the counts of some keys on one day. It can be sent several times, and is stored once, because its number must be higher
// than the writer's last. It only changes after PostgreSQL has refused it.
type batch = usagedb.AddUsageBatchParams

// backlog describes the batches that were not added to key_usage at a time.
type backlog struct {
	usagedb.UsageBacklogRow
	at time.Time
}

func (m *Meter) register() {
	factory := promauto.With(m.cfg.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m.flushFailures = counter("examprep_key_usage_flush_failures_total", "Failed writes of counted requests. The counts are kept.")
	m.rollUpFailures = counter("examprep_key_usage_roll_up_failures_total", "Failed roll-ups of key_usage_batches. They are kept.")
	m.lost = counter("examprep_key_usage_lost_total", "Requests missing from usage: PostgreSQL was unreachable for too long.")

	gauge := func(name, help string, value func(*backlog) float64) {
		help += "; NaN if this pod has not checked for a minute."
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			last := m.backlog.Load()
			if last == nil || m.cfg.Now().Sub(last.at) > backlogValid {
				return math.NaN()
			}
			return value(last)
		})
	}
	gauge("examprep_key_usage_oldest_batch_age_seconds", "Age in seconds of the oldest row of key_usage_batches; 0 if none",
		func(b *backlog) float64 { return b.OldestSeconds })
	gauge("examprep_key_usage_skipped_batches", "Rows of key_usage_batches that cannot be added to key_usage",
		func(b *backlog) float64 { return float64(b.Skipped) })
}

// Count records a request of a key at this moment: admitted, or refused because the key's allowance was used up. It never
// waits for the database, and allocates only at the first request of a key in an interval.
func (m *Meter) Count(key uuid.UUID, admitted bool) {
	at := m.cfg.Now()
	id := keyDay{key: key, day: at.Unix() / secondsPerDay}
	s := &m.shards[key[len(key)-1]%meterShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[id]
	if c == nil {
		if len(s.counters) == maxCounters {
			m.lost.Inc()
			return
		}
		c = &counter{}
		s.counters[id] = c
		if len(s.counters) == maxCounters/2 {
			m.RequestFlush()
		}
	}
	if admitted {
		c.requests++
		c.lastUsed = at.UnixMicro()
	} else {
		c.rateLimited++
	}
}

// Flush writes the counters to key_usage_batches. After an error it keeps the counts that are not written, and the
// next flush writes them first. It must not run twice at a time; [Meter.Run] calls it too.
func (m *Meter) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.FlushTimeout)
	defer cancel()
	// With more batches the shards keep their counts: that bounds the batches.
	if err := m.writeBatches(ctx); err != nil && (!postgres.Divides(err) || len(m.batches) >= mostRefused) {
		return err
	}
	m.drain()
	return m.writeBatches(ctx)
}

// drain empties the shards into batches with the next numbers.
func (m *Meter) drain() {
	current := map[int64]*batch{} // by day
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		counters := s.counters
		s.counters = make(map[keyDay]*counter, len(counters))
		s.mu.Unlock()
		for id, c := range counters {
			b := current[id.day]
			if b == nil || len(b.Keys) == batchKeys {
				m.number++
				b = &batch{Writer: m.writer, Batch: m.number, Day: time.Unix(id.day*secondsPerDay, 0).UTC()}
				current[id.day] = b
				m.batches = append(m.batches, b)
			}
			b.Keys = append(b.Keys, id.key)
			b.Requests = append(b.Requests, c.requests)
			b.RateLimited = append(b.RateLimited, c.rateLimited)
			b.LastUsed = append(b.LastUsed, c.lastUsed)
		}
	}
}

// writeBatches writes the batches. A batch that PostgreSQL refuses is kept for the next flush, and costs no other. It gets a new writer,
// because the numbers of a writer only rise. After an error that does not tell whether a batch is stored, that batch
// must be the next.
func (m *Meter) writeBatches(ctx context.Context) error {
	var failed error
	var kept []*batch
	for i, b := range m.batches {
		err := usagedb.New(m.pool).AddUsageBatch(ctx, *b)
		if err == nil {
			m.unsure = nil
			continue
		}
		m.flushFailures.Inc()
		failed = fmt.Errorf("write usage of keys: %w", err)
		if !postgres.Divides(err) {
			m.unsure = b
		}
		if m.unsure != nil {
			kept = append(kept, m.batches[i:]...)
			break
		}
		b.Writer = uuid.New()
		kept = append(kept, b)
	}
	m.batches = kept
	return failed
}

// RequestFlush makes [Meter.Run] write the counters before the interval ends. A process calls it at the start of its
// shutdown, because it still has time while it answers requests.
func (m *Meter) RequestFlush() {
	select {
	case m.flushRequested <- struct{}{}:
	default: // one is already requested
	}
}

// Run writes the counters and rolls up the batches of all pods until ctx ends, and then writes and rolls up the rest. It
// always returns nil: errors are counted, and counts that cannot be written are kept for the next flush.
func (m *Meter) Run(ctx context.Context) error {
	var rolling sync.WaitGroup
	rolling.Go(func() { repeat(ctx, lookInterval, nil, func() { _ = m.rollUp(ctx, m.cfg.RollUpAge) }) })
	repeat(ctx, m.cfg.Interval, m.flushRequested, func() { _ = m.Flush(ctx) })
	rolling.Wait()
	m.flushLast(context.WithoutCancel(ctx))
	return nil
}

// repeat calls do once an interval, and for each value of requests, until ctx ends.
func repeat(ctx context.Context, interval time.Duration, requests <-chan struct{}, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-requests:
		case <-ticker.C:
		}
		do()
	}
}

// flushLast retries until all is written, or the time is up. The time that is left is for a roll-up; another pod adds the
// rest. It counts the requests that it cannot write as lost, though some of them may be stored.
func (m *Meter) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.LastFlushTime)
	defer cancel()
	for m.Flush(ctx) != nil && ctx.Err() == nil {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	_ = m.RollUp(ctx)
	m.drain()
	for _, b := range m.batches {
		for i := range b.Keys {
			m.lost.Add(float64(b.Requests[i] + b.RateLimited[i]))
		}
	}
}
