package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// endedChunk is how many deliveries at most wait at a time while deliveries end.
const endedChunk = 5000

// leaseLimit is what a lease may take.
const leaseLimit = 20 * time.Millisecond

// measureSnapshot holds a snapshot while deliveries end, as a long report does: no vacuum removes their entries of the index. Then it
// measures how long PostgreSQL takes for each lease.
func measureSnapshot(ctx context.Context, o *outbox, duration time.Duration, r *report) error {
	owner, _, err := o.subscribe(ctx, "bench-ended", o.receiver.endpoint(behaviourGood, 0))
	if err != nil {
		return err
	}
	if err := o.startWorker(ctx); err != nil {
		return err
	}
	before, err := o.measureLeases(ctx, owner, duration)
	if err != nil {
		return err
	}
	held, err := o.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("hold a snapshot: %w", err)
	}
	defer func() { _ = held.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := held.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return fmt.Errorf("hold a snapshot: %w", err)
	}
	if _, err := held.Exec(ctx, "SELECT FROM webhook_deliveries LIMIT 1"); err != nil {
		return fmt.Errorf("hold a snapshot: %w", err)
	}
	count := o.stack.share(endedRows)
	began := time.Now()
	for left := count; left > 0; left -= endedChunk {
		seen, err := o.receiver.count(ctx)
		if err != nil {
			return err
		}
		if err := o.fill(ctx, owner, min(left, endedChunk)); err != nil {
			return err
		}
		if _, err := o.await(ctx, seen+min(left, endedChunk)); err != nil {
			return err
		}
	}
	o.stack.say("%d deliveries ended in %.0f s", count, time.Since(began).Seconds())
	during, err := o.measureLeases(ctx, owner, duration)
	if err != nil {
		return err
	}
	at := func(all []time.Duration, share float64) time.Duration {
		return (&sample{latencies: all}).percentile(share)
	}
	o.stack.judgeBulk(r, verdict{
		what: fmt.Sprintf("bulk: lease, p99, snapshot held while %d deliveries ended", count), unit: " ms",
		bar: leaseLimit.Seconds() * 1000, measured: at(during, 0.99).Seconds() * 1000,
	})
	r.notef("Leases before the snapshot: p50 %s, p99 %s, longest %s (%d leases). Under it, after %d deliveries ended: p50 %s, p99 %s, longest %s (%d leases).",
		brief(at(before, 0.5)), brief(at(before, 0.99)), brief(slices.Max(before)), len(before),
		count, brief(at(during, 0.5)), brief(at(during, 0.99)), brief(slices.Max(during)), len(during))
	return nil
}

// leaseLine is PostgreSQL's line about the execution of a lease.
var leaseLine = regexp.MustCompile(`duration: ([0-9.]+) ms  execute [^\n]*-- name: Lease `)

// measureLeases writes events for a while, and returns how long PostgreSQL took for each lease meanwhile, by its log.
func (o *outbox) measureLeases(ctx context.Context, owner uuid.UUID, duration time.Duration) (leases []time.Duration, err error) {
	log := o.stack.dir.Path("log", processPostgres+".log")
	start, err := os.Stat(log)
	if err != nil {
		return nil, err
	}
	if err := o.logDurations(ctx, "0"); err != nil {
		return nil, err
	}
	_, err = o.trickle(ctx, audience{healthy: []uuid.UUID{owner}}, duration)
	if err := errors.Join(err, o.logDurations(ctx, "-1")); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	for _, found := range leaseLine.FindAllSubmatch(text[min(int64(len(text)), start.Size()):], -1) {
		millis, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("read a duration: %w", err)
		}
		leases = append(leases, time.Duration(millis*float64(time.Millisecond)))
	}
	if len(leases) == 0 {
		return nil, errors.New("PostgreSQL logged no lease")
	}
	return leases, nil
}

// logDurations makes PostgreSQL log statements that take at least millis; -1: none.
func (o *outbox) logDurations(ctx context.Context, millis string) error {
	for _, statement := range []string{"ALTER SYSTEM SET log_min_duration_statement = " + millis, "SELECT pg_reload_conf()"} {
		if _, err := o.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("log durations: %w", err)
		}
	}
	return nil
}
