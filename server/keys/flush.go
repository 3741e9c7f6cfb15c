package keys

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// flushRows bounds one statement of a flush, so that it is over in moments, and what is written stays written when
	// the next fails.
	flushRows = 1000
	// maxTouches bounds the last uses that wait while they cannot be written.
	maxTouches = meterShards * maxTallies
	// writerRetention is how many days a writer is remembered that writes no more. A batch can be repeated as long.
	writerRetention = 30
)

// batch is a part of what was taken from the shards at one time. It does not change any more: it may be sent several
// times, and only one of them counts.
type batch = keysdb.AddUsageParams

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

// Flush writes what was counted and when keys were last used. After an error what is not yet written is kept, and
// the next flush goes on there.
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
	if err := m.write(ctx); err != nil {
		return err
	}
	return m.touch(ctx)
}

// counted is a use as it was taken from a shard.
type counted struct {
	use
	*tally
}

// take empties the shards into batches with the next numbers.
func (m *Meter) take() {
	var taken []counted
	for i := range m.shards {
		for u, t := range m.shards[i].take() {
			taken = append(taken, counted{u, t})
		}
	}
	slices.SortFunc(taken, func(a, b counted) int { // neighbours in the index share a statement
		return cmp.Or(compareIDs(a.key, b.key), cmp.Compare(a.day, b.day))
	})
	for rows := range slices.Chunk(taken, flushRows) {
		m.number++
		m.batches = append(m.batches, newBatch(m.writer, m.number, rows))
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

// noteUses keeps the last uses in a batch of those keys whose own rows do not have one of that day, until they are
// written. Where too many wait one is left out: the next batch asks for it again.
func (m *Meter) noteUses(b batch, unnoted []uuid.UUID) {
	if len(unnoted) == 0 {
		return
	}
	wanted := make(map[uuid.UUID]bool, len(unnoted))
	for _, key := range unnoted {
		wanted[key] = true
	}
	for i, key := range b.Keys {
		if before, waits := m.used[key]; wanted[key] && b.Used[i].After(before) && (waits || len(m.used) < maxTouches) {
			m.used[key] = b.Used[i]
		}
	}
}

func newBatch(writer uuid.UUID, number int64, rows []counted) batch {
	n := len(rows)
	b := batch{
		Writer: writer, Batch: number, Keys: make([]uuid.UUID, 0, n), Days: make([]time.Time, 0, n),
		Requests: make([]int64, 0, n), RateLimited: make([]int64, 0, n), Used: make([]time.Time, 0, n),
	}
	for _, row := range rows {
		b.Keys = append(b.Keys, row.key)
		b.Days = append(b.Days, time.Unix(row.day*secondsOfDay, 0).UTC())
		b.Requests = append(b.Requests, row.requests.Load())
		b.RateLimited = append(b.RateLimited, row.rateLimited.Load())
		b.Used = append(b.Used, time.UnixMicro(row.lastUsed.Load()).UTC())
	}
	return b
}

// write brings the batches to the database, in the order of their numbers: of a batch that was passed over nobody could
// tell any more whether it is in. What an error left behind there does not matter, since a number is added once.
func (m *Meter) write(ctx context.Context) error {
	for len(m.batches) > 0 {
		if err := m.add(ctx, m.batches[0]); err != nil {
			return fmt.Errorf("add usage of keys: %w", err)
		}
		m.batches = slices.Delete(m.batches, 0, 1)
	}
	return nil
}

func (m *Meter) add(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	result, err := m.queries.AddUsage(ctx, b)
	if err != nil {
		return err
	}
	m.noteUses(b, result.Unnoted)
	if b.Batch == 1 { // rows of writers are made by processes that begin, so that is when to look for old ones
		_ = m.queries.PruneUsageWriters(ctx, writerRetention) // the next process does it else
	}
	return nil
}

// touch writes on keys' own rows that they were used, once a day. It comes after the usage, which is billed, and never
// holds that up.
func (m *Meter) touch(ctx context.Context) error {
	for ids := range slices.Chunk(slices.SortedFunc(maps.Keys(m.used), compareIDs), flushRows) {
		passed, err := m.touchKeys(ctx, ids)
		if err != nil {
			return fmt.Errorf("note last use of keys: %w", err)
		}
		for _, id := range ids {
			if !slices.Contains(passed, id) {
				delete(m.used, id)
			}
		}
	}
	return nil
}

// touchKeys returns the keys that were being changed just then.
func (m *Meter) touchKeys(ctx context.Context, ids []uuid.UUID) (passed []uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	arg := keysdb.TouchKeysParams{Ids: ids}
	for _, id := range ids {
		arg.Used = append(arg.Used, m.used[id])
	}
	return m.queries.TouchKeys(ctx, arg)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
