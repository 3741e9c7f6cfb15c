package gate

import (
	"context"
	"strconv"
)

const (
	// sweepCount is about how many entries a step looks at: half a millisecond of Redis' time, however large the hash is.
	sweepCount = 256
	// mostSweeps bounds the steps of one beat. With two beats a second a pod deletes 16,000 entries a second: more than
	// it can load. Other calls come in between.
	mostSweeps = 32
	// worthwhile is which part of the entries seen must have been past for a beat to go on: one in ten. So much garbage
	// stays at most.
	worthwhile = 10
)

// sweeper remembers where the next step of the sweep begins. Only Run uses it.
type sweeper struct {
	hash   int // index in Gate.records
	cursor uint64
}

// sweep deletes entries that are past from the hashes of records: one step a beat, and more while there is much to
// delete. Each step is one run of the script, so nothing comes between finding an entry past and deleting it. Every pod
// sweeps; whether it does so matters to memory only.
func (g *Gate) sweep(ctx context.Context) {
	t := g.trust.Load()
	if !t.valid(g.cfg.Now()) {
		return
	}
	for range mostSweeps {
		seen, deleted, err := g.sweepStep(ctx, t)
		if err != nil {
			_ = g.failed(ctx, t, err)
			return
		}
		if deleted*worthwhile < seen || deleted == 0 {
			return
		}
	}
}

// sweepStep looks at the next few entries, and goes on to the next hash at the end of one.
func (g *Gate) sweepStep(ctx context.Context, t *trust) (seen, deleted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	s := &g.sweeper
	reply, err := g.rdb.Do(ctx, "evalsha", t.sha, 1, g.records[s.hash], "s", t.term,
		strconv.FormatUint(s.cursor, 10), sweepCount).Slice()
	if err != nil {
		return 0, 0, err
	}
	if s.cursor, seen, deleted, err = readSweep(reply); err != nil {
		return 0, 0, err
	}
	if s.cursor == 0 {
		s.hash = (s.hash + 1) % len(g.records)
	}
	return seen, deleted, nil
}

// malformedSweepError says that the script answered a sweep as it never does.
type malformedSweepError struct{}

func (*malformedSweepError) Error() string { return "gate script: malformed reply to a sweep" }

func readSweep(reply []any) (cursor uint64, seen, deleted int64, err error) {
	if len(reply) != 3 {
		return 0, 0, 0, &malformedSweepError{}
	}
	text, isText := reply[0].(string)
	seen, isSeen := reply[1].(int64)
	deleted, isDeleted := reply[2].(int64)
	if !isText || !isSeen || !isDeleted {
		return 0, 0, 0, &malformedSweepError{}
	}
	if cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, 0, 0, &malformedSweepError{}
	}
	return cursor, seen, deleted, nil
}
