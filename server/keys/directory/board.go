package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/batch"
)

// tellText keeps the higher number. Numbers are below 2^53, so Lua counts them exactly.
const tellText = `local now = redis.call('GET', KEYS[1])
if now and tonumber(now) >= tonumber(ARGV[1]) then return now end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]`

// RedisBoard is the newest number that any pod told Redis, in one key on its master.
type RedisBoard struct {
	rdb  redis.UniversalClient
	name string
	tell *redis.Script
}

// NewRedisBoard returns the board of the installation whose names in Redis begin with prefix.
func NewRedisBoard(rdb redis.UniversalClient, prefix string) *RedisBoard {
	return &RedisBoard{rdb: rdb, name: prefix + "keys:change", tell: redis.NewScript(tellText)}
}

// Tell stores number unless a higher one is stored, and returns the stored one.
func (b *RedisBoard) Tell(ctx context.Context, number int64) (int64, error) {
	stored, err := b.tell.Run(ctx, b.rdb, []string{b.name}, strconv.FormatInt(number, 10)).Int64()
	if err != nil {
		return 0, fmt.Errorf("tell Redis the newest change: %w", err)
	}
	return stored, nil
}

// Read returns the stored number, 0 if there is none.
func (b *RedisBoard) Read(ctx context.Context) (int64, error) {
	number, err := b.rdb.Get(ctx, b.name).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("read the newest change in Redis: %w", err)
	}
	return number, nil
}

// tell tells Redis the number after each renewal, without delaying it, until ctx ends.
func (d *Directory) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.renewed:
		}
		c := d.contents.Load()
		number := c.number.Load()
		if d.cfg.Board == nil || !d.Leased() {
			continue
		}
		calling, cancel := context.WithTimeout(ctx, d.cfg.BoardTimeout)
		stored, err := d.cfg.Board.Tell(calling, number)
		cancel()
		if err == nil {
			d.confirm(c, number, stored)
		}
	}
}

// confirm notes Redis' reply to the number of some contents.
func (d *Directory) confirm(c *contents, number, stored int64) {
	if stored > number {
		d.higher.Store(stored)
		return
	}
	c.told.Store(number)
}

// readBoard gives all requests that arrived before it Redis' number.
func (d *Directory) readBoard(_ int, calls []*batch.Call[struct{}, int64]) {
	number, err := int64(0), errors.New("the directory has no number in Redis to compare with")
	if d.cfg.Board != nil {
		ctx, cancel := context.WithTimeout(context.Background(), d.cfg.BoardTimeout)
		defer cancel()
		number, err = d.cfg.Board.Read(ctx)
	}
	for _, c := range calls {
		c.Answer(number, err)
	}
}
