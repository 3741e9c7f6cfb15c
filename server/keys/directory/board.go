package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/batch"
)

// tellText keeps the higher number. Numbers of PostgreSQL are below 2^53, so Lua counts them exactly. A text with other characters
// than digits counts as no number.
const tellText = `local now = redis.call('GET', KEYS[1])
if now and string.find(now, '^%d+$') and tonumber(now) >= tonumber(ARGV[1]) then return now end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]`

// replaceText replaces a number of ARGV[1] or more, and returns whether there was one.
const replaceText = `local now = redis.call('GET', KEYS[1])
if not now or not string.find(now, '^%d+$') or tonumber(now) < tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

// RedisBoard is the newest number that any pod told Redis, in one key on its master.
type RedisBoard struct {
	rdb           redis.UniversalClient
	name          string
	tell, replace *redis.Script
}

// NewRedisBoard returns the board of the installation whose names in Redis begin with prefix.
func NewRedisBoard(rdb redis.UniversalClient, prefix string) *RedisBoard {
	return &RedisBoard{rdb: rdb, name: prefix + "keys:change", tell: redis.NewScript(tellText), replace: redis.NewScript(replaceText)}
}

// Tell stores number unless a higher one is stored, and returns the stored one, [math.MaxInt64] for one that is higher.
func (b *RedisBoard) Tell(ctx context.Context, number int64) (int64, error) {
	digits, err := b.tell.Run(ctx, b.rdb, []string{b.name}, strconv.FormatInt(number, 10)).Text()
	if err != nil {
		return 0, fmt.Errorf("tell Redis the newest change: %w", err)
	}
	stored, _ := strconv.ParseInt(digits, 10, 64) // fails for too many digits only, and is the highest number then
	return stored, nil
}

// Replace stores number in place of one that is wrong or more, and reports whether there was one.
func (b *RedisBoard) Replace(ctx context.Context, wrong, number int64) (bool, error) {
	replaced, err := b.replace.Run(ctx, b.rdb, []string{b.name}, strconv.FormatInt(wrong, 10), strconv.FormatInt(number, 10)).Bool()
	if err != nil {
		return false, fmt.Errorf("replace a wrong number in Redis: %w", err)
	}
	return replaced, nil
}

// Read returns the stored number, 0 if there is none.
func (b *RedisBoard) Read(ctx context.Context) (int64, error) {
	number, err := b.rdb.Get(ctx, b.name).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("read the newest change in Redis: %w", err)
	}
	return number, nil
}

// teller tells Redis the number of a directory.
type teller struct {
	d       *Directory
	failing bool // the last call failed; the log has the first of many
}

// run tells Redis the number after each renewal, without delaying it, until ctx ends.
func (t *teller) run(ctx context.Context) {
	d := t.d
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
		err := t.tell(calling, c, number)
		cancel()
		switch {
		case err != nil && !t.failing && ctx.Err() == nil:
			d.cfg.Logger.Warn("Redis does not take the number of the newest change of keys; "+
				"without PostgreSQL no key passes, and a revocation is not confirmed while the row of a lost pod remains", "error", err)
		case err == nil && t.failing:
			d.cfg.Logger.Info("Redis has the number of the newest change of keys again")
		}
		t.failing = err != nil
	}
}

// tell tells Redis the number of some contents. Before that it replaces a number that a renewal found to be wrong.
func (t *teller) tell(ctx context.Context, c *contents, number int64) error {
	d := t.d
	if wrong := d.wrong.Swap(0); wrong > number {
		replaced, err := d.cfg.Board.Replace(ctx, wrong, number)
		if err != nil {
			return err
		}
		if replaced {
			d.ignored.Add(1)
			d.cfg.Logger.Error("Redis had a number of a change of keys that PostgreSQL never gave; it is replaced. "+
				"Something else writes to the keys of this installation in Redis", "found", wrong, "now", number)
		}
	}
	stored, err := d.cfg.Board.Tell(ctx, number)
	if err == nil {
		d.confirm(c, number, stored)
	}
	return err
}

// confirm notes Redis' reply to the number of some contents. A reply with another number confirms nothing.
func (d *Directory) confirm(c *contents, number, stored int64) {
	switch {
	case stored > number:
		d.higher.Store(stored)
	case stored == number:
		c.told.Store(number)
	}
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
