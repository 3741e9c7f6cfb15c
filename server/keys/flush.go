package keys

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

// writerRetention is how many days a writer is remembered that writes no more. A batch can be repeated as long.
const writerRetention = 30

// batch is what was taken from the shards at one time. It does not change any more: it may be sent several times, and
// only one of them counts.
type batch struct {
	usage keysdb.AddUsageParams
	used  map[uuid.UUID]int64 // the last use of each key in µs since 1970
}

// requests is how many are counted in b; none in nil.
func (b *batch) requests() int64 {
	if b == nil {
		return 0
	}
	var sum int64
	for i := range b.usage.Keys {
		sum += b.usage.Requests[i] + b.usage.RateLimited[i]
	}
	return sum
}

// Flush writes what was counted. After an error it is kept still, and the next flush writes it first.
func (m *Meter) Flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := m.write(ctx); err != nil {
		return err
	}
	m.batch = m.take()
	return m.write(ctx)
}

// take empties the shards into a batch with the next number; nil if there is nothing.
func (m *Meter) take() *batch {
	b := &batch{usage: keysdb.AddUsageParams{Writer: m.writer}, used: map[uuid.UUID]int64{}}
	for i := range m.shards {
		for u, t := range m.shards[i].take() {
			b.add(u, t)
		}
	}
	if len(b.usage.Keys) == 0 {
		return nil
	}
	m.number++
	b.usage.Batch = m.number
	return b
}

// take returns what the shard holds, which nobody counts in any more, and leaves it empty.
func (s *meterShard) take() map[use]*tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.tallies
	if len(taken) == 0 {
		return nil
	}
	s.tallies = make(map[use]*tally, len(taken))
	return taken
}

func (b *batch) add(u use, t *tally) {
	b.usage.Keys = append(b.usage.Keys, u.key)
	b.usage.Days = append(b.usage.Days, time.Unix(u.day*secondsOfDay, 0).UTC())
	b.usage.Requests = append(b.usage.Requests, t.requests.Load())
	b.usage.RateLimited = append(b.usage.RateLimited, t.rateLimited.Load())
	if last := t.lastUsed.Load(); last > b.used[u.key] {
		b.used[u.key] = last
	}
}

// write brings the batch to the database, if there is one. Whatever an error left behind there, doing it again is right:
// usage is added once for each number, and a last use only moves forward.
func (m *Meter) write(ctx context.Context) error {
	if m.batch == nil {
		return nil
	}
	if _, err := m.queries.AddUsage(ctx, m.batch.usage); err != nil {
		m.failures.Inc()
		return fmt.Errorf("add usage of keys: %w", err)
	}
	if err := m.touch(ctx); err != nil {
		m.failures.Inc()
		return fmt.Errorf("note last use of keys: %w", err)
	}
	if m.batch.usage.Batch == 1 { // rows of writers are made by processes that begin, so that is when to look for old ones
		_ = m.queries.PruneUsageWriters(ctx, writerRetention) // the next process does it else
	}
	m.batch = nil
	return nil
}

// touch writes when keys were last used. One order makes it unlikely that flushes of two pods deadlock. The plan may still
// take rows in another: then one of them fails, keeps what it gathered, and writes it the next time.
func (m *Meter) touch(ctx context.Context) error {
	if len(m.batch.used) == 0 {
		return nil
	}
	arg := keysdb.TouchKeysParams{Ids: slices.SortedFunc(maps.Keys(m.batch.used), compareIDs)}
	for _, id := range arg.Ids {
		arg.Used = append(arg.Used, time.UnixMicro(m.batch.used[id]))
	}
	return m.queries.TouchKeys(ctx, arg)
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
