package keys

import (
	"context"
	"fmt"
	"slices"
	"time"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// batchKeys bounds a batch, so that writing it is over in moments, and what is written stays written when the next fails.
	// One batch is also the least that a roll-up can do at a time.
	batchKeys = 2048
	// writerRetention is how many days a writer is remembered that writes no more. A batch can be repeated as long.
	writerRetention = 30
)

// batch is what was counted of some keys of one share on one day. It does not change any more: it may be sent several times, and
// only one of them counts.
type batch = keysdb.AddUsageBatchParams

// requests is how many are counted in batches.
func requests(batches []batch) int64 {
	var sum int64
	for _, b := range batches {
		for i := range b.Keys {
			sum += b.Requests[i] + b.RateLimited[i]
		}
	}
	return sum
}

// Flush writes what was counted, and when keys were last used, for a roll-up to add it to the usage. After an error what is
// not yet written is kept, and the next flush goes on there.
func (m *Meter) Flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	err := m.flush(ctx)
	if err != nil {
		m.failures.Inc()
	}
	return err
}

func (m *Meter) flush(ctx context.Context) error {
	if err := m.write(ctx); err != nil { // what the last flush left: only then is more taken, so what waits is bounded
		return err
	}
	m.take()
	return m.write(ctx)
}

// take empties the shards into batches with the next numbers: of each share and day one, or more if there is much.
func (m *Meter) take() {
	for share := range usageShares {
		days := map[int64]int{} // where a day's last batch is
		for i := share; i < meterShards; i += usageShares {
			for u, t := range m.shards[i].take() {
				at, begun := days[u.day]
				if !begun || len(m.batches[at].Keys) == batchKeys {
					at = len(m.batches)
					days[u.day] = at
					m.number++
					m.batches = append(m.batches, batch{
						Writer: m.writer, Batch: m.number, Share: int16(share), Day: time.Unix(u.day*secondsOfDay, 0).UTC(),
					})
				}
				b := &m.batches[at]
				b.Keys = append(b.Keys, u.key)
				b.Requests = append(b.Requests, t.requests.Load())
				b.RateLimited = append(b.RateLimited, t.rateLimited.Load())
				b.LastUsed = append(b.LastUsed, t.lastUsed.Load())
			}
		}
	}
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

// write brings the batches to the database, in the order of their numbers: of a batch that was passed over nobody could
// tell any more whether it is in. What an error left behind there does not matter, since a number is added once.
func (m *Meter) write(ctx context.Context) error {
	for len(m.batches) > 0 {
		if err := m.add(ctx, m.batches[0]); err != nil {
			return fmt.Errorf("write usage of keys: %w", err)
		}
		m.batches = slices.Delete(m.batches, 0, 1)
	}
	return nil
}

func (m *Meter) add(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := m.queries.AddUsageBatch(ctx, b); err != nil {
		return err
	}
	if b.Batch == 1 { // rows of writers are made by processes that begin, so that is when to look for old ones
		_ = m.queries.PruneUsageWriters(ctx, writerRetention) // the next process does it else
	}
	return nil
}
