package gate

import (
	"context"
	"slices"
	"time"

	"examprep.dev/server/keys"
)

// writeChunk is how many keys are announced in one script call, which must not hold up others for long.
const writeChunk = 500

// retryPause is how long an announcement waits between tries.
const retryPause = 50 * time.Millisecond

// Announce implements [keys.Announcer]: it returns nil once no pod accepts any of the keys by an older version. With
// Redis there that takes one round trip. Without, it takes Trust and a margin: by then every pod that still believes
// Redis has seen the change in PostgreSQL, and brought it to Redis first.
func (g *Gate) Announce(ctx context.Context, records ...keys.Record) error {
	start := g.cfg.Now()
	ticker := time.NewTicker(retryPause)
	defer ticker.Stop()
	for {
		err := g.announceOnce(ctx, records)
		if err == nil {
			return nil
		}
		if g.cfg.Now().Sub(start) > g.cfg.Trust+trustMargin {
			g.cfg.Logger.Warn("gate: a change of keys took effect without Redis", "keys", len(records), "error", err)
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// unsettledError says that pods may still believe in the server of an earlier term.
type unsettledError struct{}

func (*unsettledError) Error() string { return "gate: Redis was failed over a moment ago" }

func (g *Gate) announceOnce(ctx context.Context, records []keys.Record) error {
	t, err := g.trusted(ctx)
	if err != nil {
		return err
	}
	if err := g.write(ctx, t, records); err != nil {
		return g.failed(ctx, t, err)
	}
	now := g.cfg.Now()
	switch {
	case t.blind || !t.valid(now):
		return errLostTrust
	case now.Before(t.settled):
		return &unsettledError{}
	}
	return g.loader.MarkAnnounced(ctx, records)
}

// write puts records and tombstones on the server of t.
func (g *Gate) write(ctx context.Context, t *trust, records []keys.Record) error {
	for chunk := range slices.Chunk(records, writeChunk) {
		if err := g.writeSome(ctx, t, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) writeSome(ctx context.Context, t *trust, records []keys.Record) error {
	groups := map[string][]keys.Record{}
	for _, record := range records {
		name := g.recordsOf(&subject{id: record.Hash})
		groups[name] = append(groups[name], record)
	}
	pipe := g.rdb.Pipeline()
	for name, group := range groups {
		args := []any{"evalsha", t.sha, 1, name, "a", t.term, len(group)}
		for _, record := range group {
			s := subject{id: record.Hash}
			args = append(args, s.field(), versionBytes(record.Version), staticBytes(record))
		}
		pipe.Do(ctx, args...)
	}
	_, err := pipe.Exec(ctx)
	return err
}
