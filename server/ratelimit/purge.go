package ratelimit

import (
	"context"
	"fmt"
	"time"
)

const (
	// purgeCount is about the number of buckets that a step reads: half a millisecond of Redis' time.
	purgeCount = 256
	// maxPurges bounds the steps of one beat: a pod deletes up to 32,000 buckets a second, more than it makes.
	maxPurges = 32
	// minFull: a beat makes another step while a tenth of the buckets read are full. So about a tenth of all are at most.
	minFull = 10
)

// purger deletes full buckets, step by step: a deleted bucket and a full one are the same. All pods purge.
type purger struct {
	hash   int
	cursor int64
}

// purge makes one step, and more while many buckets are full. A step that fails is the next one again.
func (p *purger) purge(ctx context.Context, s *store, timeout time.Duration) error {
	for range maxPurges {
		read, deleted, err := p.step(ctx, s, timeout)
		if err != nil || deleted == 0 || deleted*minFull < read {
			return err
		}
	}
	return nil
}

// step reads the next buckets, and continues with the next hash at the end of one.
func (p *purger) step(ctx context.Context, s *store, timeout time.Duration) (read, deleted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := s.purgeScript.Run(ctx, s.rdb, s.hashes[p.hash:p.hash+1], p.cursor, purgeCount).Int64Slice()
	if err != nil {
		return 0, 0, fmt.Errorf("purge buckets: %w", err)
	}
	if len(reply) != 3 {
		return 0, 0, &ReplyError{Script: "purge.lua", Detail: fmt.Sprint(reply)}
	}
	if p.cursor = reply[0]; p.cursor == 0 {
		p.hash = (p.hash + 1) % len(s.hashes)
	}
	return reply[1], reply[2], nil
}
