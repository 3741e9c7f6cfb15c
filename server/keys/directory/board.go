package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/batch"
)

// Board is the newest number that any pod told Redis.
type Board interface {
	// Tell stores number unless a higher one is stored, and returns the stored one.
	Tell(ctx context.Context, number int64) (int64, error)
	// Read returns the stored number, 0 if there is none.
	Read(ctx context.Context) (int64, error)
}

// tellText keeps the higher number. Numbers are below 2^53, so Lua counts them exactly.
const tellText = `local now = redis.call('GET', KEYS[1])
if now and tonumber(now) >= tonumber(ARGV[1]) then return now end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]`

// RedisBoard is the Board in Redis, in one key on its master.
type RedisBoard struct {
	rdb  redis.UniversalClient
	name string
	tell *redis.Script
}

// NewRedisBoard returns the board of the installation whose names in Redis begin with prefix.
func NewRedisBoard(rdb redis.UniversalClient, prefix string) *RedisBoard {
	return &RedisBoard{rdb: rdb, name: prefix + "keys:change", tell: redis.NewScript(tellText)}
}

// Tell implements [Board].
func (b *RedisBoard) Tell(ctx context.Context, number int64) (int64, error) {
	stored, err := b.tell.Run(ctx, b.rdb, []string{b.name}, strconv.FormatInt(number, 10)).Int64()
	if err != nil {
		return 0, fmt.Errorf("tell Redis the newest change: %w", err)
	}
	return stored, nil
}

// Read implements [Board].
func (b *RedisBoard) Read(ctx context.Context) (int64, error) {
	number, err := b.rdb.Get(ctx, b.name).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("read the newest change in Redis: %w", err)
	}
	return number, nil
}

// teller tells Redis the pod's number after each renewal, without delaying it.
type teller struct {
	wake   chan struct{}
	higher atomic.Int64 // a number in Redis above the pod's, 0 for none

	mu     sync.Mutex
	number int64     // that Redis confirmed
	of     *contents // for these contents
}

// soon has the number told.
func (t *teller) soon() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// told returns the number that Redis confirmed for these contents. It does not survive a load: then PostgreSQL may have
// lost the change that it is about.
func (t *teller) told(c *contents) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of != c {
		return 0
	}
	return t.number
}

// confirm notes Redis' reply to a number.
func (t *teller) confirm(c *contents, number, stored int64) {
	if stored > number {
		t.higher.Store(stored)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of != c {
		t.of, t.number = c, 0
	}
	t.number = max(t.number, number)
}

// tell tells Redis the number after each renewal, until ctx ends.
func (d *Directory) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.teller.wake:
		}
		c := d.contents.Load()
		number := c.number.Load()
		if d.cfg.Board == nil || !d.Leased() {
			continue
		}
		calling, cancel := context.WithTimeout(ctx, boardTimeout)
		stored, err := d.cfg.Board.Tell(calling, number)
		cancel()
		if err == nil {
			d.teller.confirm(c, number, stored)
		}
	}
}

// BoardError reports that no number can be read: the directory has no board.
type BoardError struct{}

func (*BoardError) Error() string { return "the directory has no number in Redis to compare with" }

// readBoard answers all requests that arrived before it with Redis' number.
func (d *Directory) readBoard(_ int, calls []*batch.Call[struct{}, int64]) {
	var number int64
	var err error = &BoardError{}
	if d.cfg.Board != nil {
		ctx, cancel := context.WithTimeout(context.Background(), boardTimeout)
		defer cancel()
		number, err = d.cfg.Board.Read(ctx)
	}
	for _, c := range calls {
		c.Answer(number, err)
	}
}
