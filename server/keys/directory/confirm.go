package directory

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

const (
	// leaseWait is how long a change waits for silent pods. It must be longer than a lease (2 s).
	leaseWait = 2500 * time.Millisecond
	// confirmLimit is how long a change waits for a pod that tells Redis.
	confirmLimit = 5 * time.Second
	// readEvery is the time between two reads of the pods' rows.
	readEvery = 5 * time.Millisecond
)

// pod is a row of api_pods.
type pod struct {
	id                      uuid.UUID
	applied, told, renewals int64
	lost                    bool
}

// confirmation is an author's wait for the pods after a commit.
type confirmation struct {
	kind   keys.ChangeKind
	number int64               // the newest when the rows were first read
	first  map[uuid.UUID]int64 // renewals at that time
}

// judge decides by the pods as they are now, waited after they were first read. silent are pods that must be marked as lost.
func (c *confirmation) judge(pods []pod, waited time.Duration) (done bool, silent []pod) {
	late := waited >= leaseWait
	leases, redis, told := true, true, false
	for _, p := range pods {
		behind := p.applied < c.number
		leases = leases && (p.lost || !behind)
		redis = redis && !behind
		told = told || p.told >= c.number
		if seen, ok := c.first[p.id]; ok && late && behind && !p.lost && p.renewals == seen {
			silent = append(silent, p)
		}
	}
	return (leases || late) && (c.kind == keys.Addition || redis || told), silent
}

// Author changes keys or tiers in PostgreSQL, and then waits for the pods.
type Author struct{ pool *pgxpool.Pool }

// NewAuthor returns an author on pool.
func NewAuthor(pool *pgxpool.Pool) *Author { return &Author{pool: pool} }

// Confirm waits, after the commit of a change, until no API pod goes by an older state. It takes about 10 ms, and 2.5 s if a pod
// is silent. It uses PostgreSQL only. It returns an [*keys.UnconfirmedError] if it is not certain after 5 s or when ctx ends.
func (a *Author) Confirm(ctx context.Context, kind keys.ChangeKind) error {
	queries := keysdb.New(a.pool)
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	start := time.Now() // when the rows were first read: older leases have begun before
	var c *confirmation
	var failure error
	behind := 0
	for {
		now := time.Now()
		number, pods, err := podsApplied(ctx, queries)
		failure = err
		if err == nil {
			if c == nil {
				start, c = now, newConfirmation(kind, number, pods)
			}
			done, silent := c.judge(pods, now.Sub(start))
			if len(silent) > 0 {
				failure = c.mark(ctx, queries, silent)
			}
			if done {
				return nil
			}
			behind = c.countBehind(pods)
		}
		if waited := time.Since(start); waited > confirmLimit {
			return &keys.UnconfirmedError{Waited: waited, Silent: behind, Err: failure}
		}
		select {
		case <-ctx.Done():
			return &keys.UnconfirmedError{Waited: time.Since(start), Silent: behind, Err: ctx.Err()}
		case <-ticker.C:
		}
	}
}

func newConfirmation(kind keys.ChangeKind, number int64, pods []pod) *confirmation {
	c := &confirmation{kind: kind, number: number, first: make(map[uuid.UUID]int64, len(pods))}
	for _, p := range pods {
		c.first[p.id] = p.renewals
	}
	return c
}

func (c *confirmation) countBehind(pods []pod) (n int) {
	for _, p := range pods {
		if p.applied < c.number {
			n++
		}
	}
	return n
}

// mark marks pods as lost unless they have renewed meanwhile, so that the next change does not wait for them.
func (c *confirmation) mark(ctx context.Context, queries *keysdb.Queries, silent []pod) error {
	arg := keysdb.MarkPodsLostParams{Number: c.number}
	for _, p := range silent {
		arg.Ids, arg.Renewals = append(arg.Ids, p.id), append(arg.Renewals, p.renewals)
	}
	if err := queries.MarkPodsLost(ctx, arg); err != nil {
		return fmt.Errorf("mark silent pods: %w", err)
	}
	return nil
}

// podsApplied reads the newest number and all pods in one snapshot.
func podsApplied(ctx context.Context, queries *keysdb.Queries) (number int64, pods []pod, err error) {
	rows, err := queries.PodsApplied(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("read pods: %w", err)
	}
	for _, row := range rows {
		number = row.Number
		if row.ID.Valid {
			pods = append(pods, pod{id: row.ID.UUID, applied: *row.Applied, told: *row.Told, renewals: *row.Renewals, lost: row.Lost})
		}
	}
	return number, pods, nil
}
