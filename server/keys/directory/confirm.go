package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

// readEvery is the time between two reads of the pods' rows.
const readEvery = 5 * time.Millisecond

// errStandby reports an answer that can be older than the change.
var errStandby = errors.New("PostgreSQL is a standby here: DATABASE_URL must lead to the primary only")

// confirmation is an author's wait for the pods after a commit.
type confirmation struct {
	kind   keys.ChangeKind
	number int64               // the newest when the rows were first read
	first  map[uuid.UUID]int64 // renewals at that time
	start  time.Duration       // of the first read, by the monotonic clock: older leases have begun before
	wait   time.Duration       // Timings.Wait
}

func newConfirmation(kind keys.ChangeKind, wait time.Duration, number int64, pods []keysdb.PodsAppliedRow) *confirmation {
	c := &confirmation{kind: kind, wait: wait, number: number, first: make(map[uuid.UUID]int64, len(pods))}
	for _, p := range pods {
		c.first[p.ID] = p.Renewals
	}
	return c
}

// verdict is the state of a confirmation.
type verdict struct {
	done   bool
	behind int                       // pods that have not applied the change
	silent keysdb.MarkPodsLostParams // pods to mark as lost unless they renew meanwhile: the next author must not wait for them
}

// judge decides by the pods as they are now, waited after they were first read.
func (c *confirmation) judge(pods []keysdb.PodsAppliedRow, waited time.Duration) verdict {
	v := verdict{silent: keysdb.MarkPodsLostParams{Number: c.number}}
	late := waited >= c.wait
	leases, told := true, false
	for _, p := range pods {
		told = told || p.Told >= c.number
		if p.Applied >= c.number {
			continue
		}
		v.behind++
		leases = leases && p.Lost
		if seen, ok := c.first[p.ID]; ok && late && !p.Lost && p.Renewals == seen {
			v.silent.Ids, v.silent.Renewals = append(v.silent.Ids, p.ID), append(v.silent.Renewals, seen)
		}
	}
	v.done = (leases || late) && (c.kind == keys.Addition || v.behind == 0 || told)
	return v
}

// Author waits for the pods after a change of keys or tiers.
type Author struct {
	pool *pgxpool.Pool
	cfg  AuthorConfig
}

// AuthorConfig holds the settings of an [Author]. The zero value of each field means its default.
type AuthorConfig struct {
	// Clock reads the time; nil for the machine's. Only its monotonic time counts.
	Clock Clock
	// Timings are those of the pods ([Production]).
	Timings Timings
}

// NewAuthor returns an author on pool.
func NewAuthor(pool *pgxpool.Pool, cfg AuthorConfig) *Author {
	if cfg.Clock == nil {
		cfg.Clock = MachineClock()
	}
	cfg.Timings = cmp.Or(cfg.Timings, Production())
	return &Author{pool: pool, cfg: cfg}
}

// Confirm waits, after the commit of a change, until no API pod goes by an older state. It takes about 10 ms, and 2.5 s if a pod
// is silent. It uses PostgreSQL only. It returns an [*keys.UnconfirmedError] if it is not certain after 5 s or when ctx ends.
func (a *Author) Confirm(ctx context.Context, kind keys.ChangeKind) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	c := &confirmation{kind: kind, wait: a.cfg.Timings.Wait, start: a.cfg.Clock().Monotonic}
	behind := 0 // by the last reading that succeeded
	for {
		v, err := a.look(ctx, c)
		if v.done {
			return nil
		}
		if err == nil {
			behind = v.behind
		}
		if waited := a.cfg.Clock().Monotonic - c.start; waited > a.cfg.Timings.Limit {
			return &keys.UnconfirmedError{Waited: waited, Silent: behind, Err: err}
		}
		select {
		case <-ctx.Done():
			return &keys.UnconfirmedError{Waited: a.cfg.Clock().Monotonic - c.start, Silent: behind, Err: ctx.Err()}
		case <-ticker.C:
		}
	}
}

// look reads the pods' rows once, and marks silent pods as lost.
func (a *Author) look(ctx context.Context, c *confirmation) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timings.Call)
	defer cancel()
	queries, now := keysdb.New(a.pool), a.cfg.Clock().Monotonic
	pods, err := queries.PodsApplied(ctx)
	if err != nil {
		return verdict{}, fmt.Errorf("read pods: %w", err)
	}
	switch {
	case pods[0].Standby:
		return verdict{}, errStandby
	case pods[0].ID == uuid.Nil: // there is no pod
		return verdict{done: true}, nil
	}
	if c.first == nil {
		begun := newConfirmation(c.kind, c.wait, pods[0].Newest, pods)
		begun.start = now
		*c = *begun
	}
	v := c.judge(pods, now-c.start)
	if len(v.silent.Ids) > 0 {
		if err := queries.MarkPodsLost(ctx, v.silent); err != nil {
			return v, fmt.Errorf("mark silent pods: %w", err)
		}
	}
	return v, nil
}
