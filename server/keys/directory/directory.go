package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/batch"
	"examprep.dev/server/keys"
)

const (
	// blindTime is how long a pod without a lease can use its directory.
	blindTime = 24 * time.Hour
	// minPause is the minimum of the time between two renewals.
	minPause = 10 * time.Millisecond
	// pruneEvery is the time between two deletions of old changes by one pod.
	pruneEvery = 5 * time.Minute
	// loadTimeout bounds the reading of all keys.
	loadTimeout = 2 * time.Minute
	// tooLargePause follows a load that exceeded the budget: it read all keys.
	tooLargePause = 10 * time.Second
	// maxChanges is the maximum number of changes that a renewal returns.
	maxChanges = 10_000
	// defaultBoardTimeout is Config.BoardTimeout's default.
	defaultBoardTimeout = 250 * time.Millisecond
	// boardQueue is the maximum number of requests that wait for the number in Redis.
	boardQueue = 8192

	defaultBudget = 128 << 20
)

// Config holds the settings of a [Directory]. The zero value of each field means its default.
type Config struct {
	// Budget is the maximum of bytes that the directory takes when it is loaded (128 MiB).
	Budget int
	// BudgetSetting names the flag of Budget, for the error.
	BudgetSetting string
	// Board is the number in Redis; nil: none, so nothing passes without a lease.
	Board *RedisBoard
	// BoardTimeout bounds a call to Redis (250 ms).
	BoardTimeout time.Duration
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger gets transitions and unreadable rows, never keys; nil discards them.
	Logger *slog.Logger
	// Clock reads the time; nil for the machine's. It must run as fast for all pods and authors of an installation.
	Clock Clock
	// Timings are the times of leases ([Production]).
	Timings Timings
}

// Key is an active key as the gate needs it.
type Key struct {
	keys.Identity

	// Tier is the tier that applies, nil if the key is not known. It is shared and must not be changed.
	Tier *keys.Tier
}

// Status is the answer of the directory about a key.
type Status uint8

// The statuses. The zero Status is Unavailable.
const (
	// Unavailable: the pod cannot be certain about the key (503).
	Unavailable Status = iota
	// Unknown: no active key has this hash.
	Unknown
	// Live: the key is valid.
	Live
)

// lease is the right to answer from the directory, for Timings.Lease.
type lease struct {
	begin Reading   // before its renewal was sent
	now   time.Time // PostgreSQL's time at the renewal
}

// at returns the time of PostgreSQL, by the clock that shows more: a key must not outlive its expiry.
func (l *lease) at(now Reading) time.Time {
	return l.now.Add(max(now.Monotonic-l.begin.Monotonic, now.Wall.Sub(l.begin.Wall)))
}

// within reports whether less than d has passed since the lease began, by both clocks.
func (l *lease) within(d time.Duration, now Reading) bool {
	return now.Monotonic-l.begin.Monotonic < d && now.Wall.Sub(l.begin.Wall) < d
}

// Directory is the directory of one pod. [New] makes one, [Directory.Run] keeps it current.
type Directory struct {
	id       uuid.UUID
	pool     *pgxpool.Pool
	cfg      Config
	contents atomic.Pointer[contents]
	// lease is the last lease. It is nil before the first one, and while the pod may have no row: then nothing passes.
	lease   atomic.Pointer[lease]
	renewal atomic.Pointer[lease] // the times of the last renewal, which stay when the lease is removed
	pods    atomic.Int32
	higher  atomic.Int64  // a number in Redis above the pod's, 0 for none
	wrong   atomic.Int64  // a number in Redis that PostgreSQL never gave, 0 for none
	ignored atomic.Int64  // how many such numbers were replaced
	renewed chan struct{} // wakes tell
	pruner  pruner
	board   *batch.Batcher[struct{}, int64] // reads Redis' number

	// Only Run's goroutine uses the rest.

	loaded  bool
	pruned  time.Duration // when pruning last started, by the monotonic clock
	failure string        // of the last attempt, for the log; empty: none
}

// New returns a directory that reads pool's database by a connection of its own. It does nothing until [Directory.Run].
func New(cfg Config, pool *pgxpool.Pool) *Directory {
	cfg.Budget, cfg.BoardTimeout = cmp.Or(cfg.Budget, defaultBudget), cmp.Or(cfg.BoardTimeout, defaultBoardTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = MachineClock()
	}
	cfg.Timings = cmp.Or(cfg.Timings, Production())
	d := &Directory{id: uuid.Must(uuid.NewV7()), pool: pool, cfg: cfg, renewed: make(chan struct{}, 1)}
	d.pruner = pruner{pool: pool, call: cfg.Timings.Call, logger: cfg.Logger, due: make(chan struct{}, 1)}
	d.contents.Store(newContents(shardCount))
	d.board = batch.New(batch.Config[struct{}, int64]{Size: boardQueue, InFlight: 2, Queue: boardQueue, Run: d.readBoard})
	registerMetrics(cfg.Registerer, d)
	return d
}

// Close ends the reading of Redis. It must follow the last request.
func (d *Directory) Close() { d.board.Close() }

// Find returns the active key of a hash. With a lease it reads memory only. Without one it asks Redis whether the directory has
// the newest change, and returns Unavailable, with the key if it knew one, if that is not certain or ctx ends.
func (d *Directory) Find(ctx context.Context, hash keys.Hash) (Key, Status) {
	l := d.look(hash)
	if !l.blind {
		return l.key, l.status
	}
	number, err := d.board.Do(ctx, struct{}{})
	if err != nil {
		return l.key, Unavailable
	}
	return l.compare(number)
}

// look is what a request found in the directory.
type look struct {
	key    Key
	status Status
	blind  bool  // there was no lease: status counts if Redis has number
	number int64 // of the directory, read before the key
}

// look reads the clocks, checks the lease, and only then looks the key up.
func (d *Directory) look(hash keys.Hash) look {
	now, current := d.cfg.Clock(), d.lease.Load()
	if current == nil || !current.within(blindTime, now) {
		return look{status: Unavailable}
	}
	short := shorten(hash[:])
	blind := !current.within(d.cfg.Timings.Lease, now)
	c := d.contents.Load()
	number := c.number.Load()
	key, live := c.find(&short, current.at(now))
	switch {
	case live:
		return look{key: key, status: Live, blind: blind, number: number}
	case blind:
		return look{status: Unavailable}
	default:
		return look{status: Unknown}
	}
}

// compare decides about a key that was found without a lease, with Redis' number, which was read after the request arrived.
func (l look) compare(number int64) (Key, Status) {
	if number != l.number {
		return l.key, Unavailable
	}
	return l.key, l.status
}

// Leased reports whether the pod has a lease.
func (d *Directory) Leased() bool {
	l := d.lease.Load()
	return l != nil && l.within(d.cfg.Timings.Lease, d.cfg.Clock())
}

// DatabaseTime returns PostgreSQL's time: its time at the last renewal plus the time since by the monotonic clock. It agrees in
// all pods to within the duration of a renewal, also if a machine's clock is wrong or is set. Before the first renewal it is the
// machine's time.
func (d *Directory) DatabaseTime() time.Time {
	now, last := d.cfg.Clock(), d.renewal.Load()
	if last == nil {
		return now.Wall
	}
	return last.now.Add(now.Monotonic - last.begin.Monotonic)
}

// Pods returns the number of pods that renewed their leases shortly before the last renewal, at least 1.
func (d *Directory) Pods() int { return max(int(d.pods.Load()), 1) }

// Default returns the tier of keys that no other tier applies to.
func (d *Directory) Default() keys.Tier { return *d.contents.Load().tiers.Load().Default() }

// Ready returns nil if the pod can answer for active keys: it has a lease, or Redis' number equals the pod's.
func (d *Directory) Ready(ctx context.Context) error {
	if d.Leased() {
		return nil
	}
	if d.lease.Load() == nil {
		return errors.New("the keys are not loaded yet")
	}
	before := d.contents.Load().number.Load()
	number, err := d.board.Do(ctx, struct{}{})
	switch {
	case err != nil:
		return fmt.Errorf("neither PostgreSQL nor Redis confirms the keys: %w", err)
	case number != before:
		return errors.New("PostgreSQL is unreachable, and Redis has another number of changes")
	default:
		return nil
	}
}
