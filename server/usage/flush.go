package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"examprep.dev/server/postgres/usagedb"
)

const (
	// batchKeys bounds a batch, so that a write is short, and a failed flush keeps what it has written.
	batchKeys = 2048
	// databaseTimeout bounds a flush, and a transaction of a roll-up.
	databaseTimeout = 10 * time.Second
	// lastFlushTime bounds the last flush and roll-up: the process is about to end.
	lastFlushTime = 2 * time.Second
)

// batch holds the counts of some keys on one day. It never changes: it can be sent several times, and is stored once,
// because its number must be higher than the writer's last.
type batch = usagedb.AddUsageBatchParams

// Flush writes the counters to key_usage_batches. After an error it keeps the counts that are not written, and the
// next flush writes them first. Only one Flush can run at a time, those of [Meter.Run] included.
func (m *Meter) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := m.writeBatches(ctx); err != nil {
		return err // the shards keep their counts: that bounds the batches
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

func (m *Meter) writeBatches(ctx context.Context) error {
	for len(m.batches) > 0 {
		if err := m.queries.AddUsageBatch(ctx, *m.batches[0]); err != nil {
			m.flushFailures.Inc()
			return fmt.Errorf("write usage of keys: %w", err)
		}
		m.batches = slices.Delete(m.batches, 0, 1)
	}
	return nil
}

// flushLast retries until all is written, or the time is up. The time that is left is for a roll-up; another pod adds the
// rest. It counts the requests that it cannot write as lost, though some of them may be stored.
func (m *Meter) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTime)
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
