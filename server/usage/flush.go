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
	// writerRetention is how many days an idle writer is kept. A batch can be repeated as long.
	writerRetention = 30
	// statementTimeout bounds a statement of a flush, and a transaction of a roll-up.
	statementTimeout = 10 * time.Second
	// lastFlushTime bounds the last flush and roll-up: the process is about to end.
	lastFlushTime = 2 * time.Second
	// lastFlushRetry is the pause between two attempts of the last flush.
	lastFlushRetry = 100 * time.Millisecond
)

// batch holds the counts of some keys on one day. It never changes: it can be sent several times, and is stored
// once.
type batch = usagedb.AddUsageBatchParams

func (m *Meter) keepFlushing(ctx context.Context) {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.flushRequested:
		case <-ticker.C:
		}
		_ = m.Flush(ctx) // counted; the next flush goes on
	}
}

// flushLast retries until all is written, or the time is up. The time that is left is for the roll-up. Another pod adds
// the rest.
func (m *Meter) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTime)
	defer cancel()
	retry := time.NewTicker(lastFlushRetry)
	defer retry.Stop()
	for m.Flush(ctx) != nil {
		select {
		case <-retry.C:
		case <-ctx.Done():
			m.recordLost()
			return
		}
	}
	_ = m.RollUp(ctx)
}

// recordLost counts the requests that could not be written. Some of them may have been stored.
func (m *Meter) recordLost() {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	m.drain()
	m.metrics.lost.Add(float64(requestsOf(m.batches)))
}

func requestsOf(batches []batch) int64 {
	var sum int64
	for _, b := range batches {
		for i := range b.Keys {
			sum += b.Requests[i] + b.RateLimited[i]
		}
	}
	return sum
}

// Flush writes the counters to key_usage_batches. After an error it keeps the counts that are not written, and the
// next flush writes them first.
func (m *Meter) Flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	err := m.writeBatches(ctx) // what the last flush left: only then is more drained, so the backlog is bounded
	if err == nil {
		m.drain()
		err = m.writeBatches(ctx)
	}
	if err != nil {
		m.metrics.flushFailures.Inc()
	}
	return err
}

// drain empties the shards into batches with the next numbers.
func (m *Meter) drain() {
	last := map[int64]int{} // index of a day's last batch
	for i := range m.shards {
		for id, c := range m.shards[i].drain() {
			at, exists := last[id.day]
			if !exists || len(m.batches[at].Keys) == batchKeys {
				at = len(m.batches)
				last[id.day] = at
				m.number++
				m.batches = append(m.batches, batch{Writer: m.writer, Batch: m.number, Day: time.Unix(id.day*secondsPerDay, 0).UTC()})
			}
			b := &m.batches[at]
			b.Keys = append(b.Keys, id.key)
			b.Requests = append(b.Requests, c.requests.Load())
			b.RateLimited = append(b.RateLimited, c.rateLimited.Load())
			b.LastUsed = append(b.LastUsed, c.lastUsed.Load())
		}
	}
}

// writeBatches sends the batches in order. A batch that is sent twice is stored once, because its number must be higher
// than the writer's last.
func (m *Meter) writeBatches(ctx context.Context) error {
	for len(m.batches) > 0 {
		if err := m.writeBatch(ctx, m.batches[0]); err != nil {
			return fmt.Errorf("write usage of keys: %w", err)
		}
		m.batches = slices.Delete(m.batches, 0, 1)
	}
	return nil
}

func (m *Meter) writeBatch(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := m.queries.AddUsageBatch(ctx, b); err != nil {
		return err
	}
	if b.Batch == 1 { // a new process adds a writer, so it also deletes old ones
		_ = m.queries.PruneUsageWriters(ctx, writerRetention) // otherwise the next process does
	}
	return nil
}
