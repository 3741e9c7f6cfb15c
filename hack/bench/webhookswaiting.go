package main

import (
	"context"
	"fmt"
	"net/url"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
)

const (
	// fewWaiting and manyWaiting are how many deliveries wait in the two databases that are compared.
	fewWaiting  = 1000
	manyWaiting = 1_000_000
	// waitingChunk is how many rows one statement of the load writes, sharing is how many of them have an event in common.
	waitingChunk = 50_000
	sharing      = 10
	// parkTime is the longest that workers put off what is due at a receiver that cannot take it.
	parkTime = time.Hour
	// waitingTurns is how often the two take turns. It is odd, for the median.
	waitingTurns = 3
)

// waiting is an outbox where so many deliveries wait, each kind on top of the one before.
type waiting struct {
	*outbox

	count int
	turn  turn
	// sum is what its turns measured.
	sum sample
}

// measureWaiting compares the cost of a delivery while many wait with its cost while few do. Two workers, each on a
// database of its own in the same PostgreSQL, are given the same in turn, and halted while it is the other's.
func (o *outbox) measureWaiting(ctx context.Context, duration time.Duration, r *report) error {
	few, err := o.openWaiting(ctx, fewWaiting, duration)
	if err != nil {
		return err
	}
	defer few.close(context.WithoutCancel(ctx))
	many, err := o.openWaiting(ctx, manyWaiting, duration)
	if err != nil {
		return err
	}
	defer many.close(context.WithoutCancel(ctx))
	for _, kind := range []struct {
		name   string
		isDue  bool
		within time.Duration
	}{{"wait for a retry", false, 2 * time.Hour}, {"are due at a receiver that hangs", true, parkTime}} {
		for _, w := range []*waiting{few, many} {
			if err := w.load(ctx, kind.isDue, kind.within); err != nil {
				return err
			}
		}
		if err := compareWaiting(ctx, kind.name, few, many, r); err != nil {
			return err
		}
	}
	r.notef("What is due at a receiver that hangs was put off before, as workers do that meet it: it comes up again within %s.", parkTime)
	return o.receiver.tell(ctx, pathRelease)
}

func compareWaiting(ctx context.Context, what string, few, many *waiting, r *report) error {
	few.sum, many.sum = sample{}, sample{}
	var costs, rates []float64
	for n := range waitingTurns + 1 {
		small, err := few.workAlone(ctx, many)
		if err != nil {
			return err
		}
		large, err := many.workAlone(ctx, few)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // windows and connections opened
		}
		few.sum.add(small)
		many.sum.add(large)
		costs = append(costs, large.micros(processWorker, processPostgres, processRedis)/small.micros(processWorker, processPostgres, processRedis))
		rates = append(rates, large.rate()/small.rate())
	}
	r.row(fmt.Sprintf("deliveries while %d others %s", many.count, what), &many.sum)
	r.row(fmt.Sprintf("  the same while %d others do", few.count), &few.sum)
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: CPU of a delivery while %d / %d %s, median turn", many.count, few.count, what),
		unit: "×", target: 1.2, measured: middle(costs),
	})
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: rate while %d / %d %s, median turn", many.count, few.count, what),
		unit: "×", target: 0.8, least: true, measured: middle(rates),
	})
	return nil
}

// workAlone works a turn off while the other's worker stands still: what it does for its own waiting deliveries would be
// counted here, since both have the same PostgreSQL and Redis.
func (w *waiting) workAlone(ctx context.Context, other *waiting) (sample, error) {
	processes, err := w.stack.watched(other.worker)
	if err != nil {
		return sample{}, err
	}
	pid := processes[0].pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return sample{}, fmt.Errorf("halt %s: %w", other.worker, err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	return w.work(ctx, w.turn)
}

// openWaiting makes a database with a worker of its own, and endpoints for what is measured.
func (o *outbox) openWaiting(ctx context.Context, count int, duration time.Duration) (*waiting, error) {
	name := fmt.Sprintf("waiting_%d", count)
	if _, err := o.pool.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	address, err := url.Parse(o.databaseURL)
	if err != nil {
		return nil, err
	}
	address.Path = "/" + name
	if err := o.stack.migrateTo(ctx, address.String()); err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, address.String())
	if err != nil {
		return nil, err
	}
	own, err := o.stack.newOutbox(o.receiver, pool, address.String(), "worker-"+name)
	if err != nil {
		return nil, err
	}
	w := &waiting{outbox: own, count: count}
	w.turn = turn{
		endpoints: backlogEndpoints, events: int(duration.Seconds() * backlogRate / backlogEndpoints / 2), workers: []string{own.worker},
	}
	if w.turn.owner, err = w.subscribeBacklog(ctx, "bench-backlog", behaviourGood, backlogEndpoints); err != nil {
		return nil, err
	}
	if err := w.startWorker(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// load writes the deliveries that wait: for a retry, none of which comes while this measures, or due and put off. The relay
// looks at them within that time, one after the other.
func (w *waiting) load(ctx context.Context, isDue bool, within time.Duration) error {
	url := w.receiver.endpoint(behaviourHanging, backlogEndpoints)
	owner, endpoint, err := w.subscribe(ctx, fmt.Sprintf("bench-waiting-%t", isDue), url)
	if err != nil {
		return err
	}
	began := time.Now()
	for left := w.count; left > 0; left -= waitingChunk {
		if err := w.loadChunk(ctx, owner, endpoint, min(left, waitingChunk), isDue, within); err != nil {
			return fmt.Errorf("write deliveries that wait: %w", err)
		}
	}
	for _, statement := range []string{"ANALYZE webhook_events, webhook_deliveries", "CHECKPOINT"} {
		if err := w.stack.maintain(ctx, w.pool, statement); err != nil {
			return err
		}
	}
	w.stack.say("%d deliveries wait, written in %.0f s", w.count, time.Since(began).Seconds())
	return nil
}

func (w *waiting) loadChunk(ctx context.Context, owner, endpoint uuid.UUID, count int, isDue bool, within time.Duration) error {
	event, err := scoredEvent(examKey + "-0000")
	if err != nil {
		return err
	}
	const statement = `
		WITH event AS (
			INSERT INTO webhook_events (id, kind, account_id, body)
			SELECT webhook_new_id(), $1, $2, $3 FROM generate_series(1, $4::int / $5::int)
			RETURNING id
		)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, attempt, created_at, next_attempt_at, relay_at, parked)
		SELECT webhook_new_id(), event.id, $6, 1, clock_timestamp(), CASE WHEN $7 THEN now() ELSE later.at END, later.at, $7
		FROM event, generate_series(1, $5::int) AS copy,
		     LATERAL (SELECT now() + $8::float8 * greatest(random() * (copy > 0)::int, 0.25 * (NOT $7)::int) * interval '1 second' AS at) AS later`
	_, err = w.pool.Exec(ctx, statement, event.Kind, owner, event.Body, count, sharing, endpoint, isDue, within.Seconds())
	return err
}

// close drops the database: the rows need not lie about while other parts run.
func (w *waiting) close(ctx context.Context) {
	w.stopWorker()
	name := w.databaseName()
	w.pool.Close()
	_, _ = w.stack.pool.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}
