package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/hack/dev/process"
)

const (
	// backlogEndpoints share each backlog.
	backlogEndpoints = 4
	// webhookTurns is how often things that are weighed against each other take turns. It is odd, for the median.
	webhookTurns = 5
	// backlogRate is what a backlog is sized by: so many deliveries for each second of its turn.
	backlogRate = 2500
	// drainTime is how long a backlog may take on the slowest machine.
	drainTime = 2 * time.Minute
)

// measureWebhooks measures workers: their rate, how long events take, what bad receivers do to the others, what waiting
// deliveries cost, and how workers add up.
func measureWebhooks(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	receiver, err := s.startReceiver(ctx)
	if err != nil {
		return err
	}
	o, err := s.newOutbox(receiver, s.pool, s.databaseURL, processWorker)
	if err != nil {
		return err
	}
	if err := o.startWorker(ctx); err != nil {
		return err
	}
	defer o.stopWorker()
	for _, measure := range []func(context.Context, time.Duration, *report) error{
		o.measureRate, o.measureIsolation, o.measureWaiting, o.measureScaling,
	} {
		if err := measure(ctx, duration, r); err != nil {
			return err
		}
	}
	return nil
}

// outbox writes events as the product does, for endpoints of the receiver, and has a worker.
type outbox struct {
	stack       *stack
	receiver    *remote
	pool        *pgxpool.Pool
	databaseURL string
	endpoints   registrar
	// worker is the name of its process; supervisor runs it.
	worker     string
	supervisor *process.Supervisor
}

func (s *stack) newOutbox(receiver *remote, pool *pgxpool.Pool, databaseURL, worker string) (*outbox, error) {
	endpoints, err := s.newRegistrar(pool)
	return &outbox{stack: s, receiver: receiver, pool: pool, databaseURL: databaseURL, endpoints: endpoints, worker: worker}, err
}

// openOutbox makes a database of that name with an outbox of its own. Close it.
func (s *stack) openOutbox(ctx context.Context, receiver *remote, name string) (*outbox, error) {
	databaseURL, pool, err := s.createDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.program(databaseURL).migrate(ctx); err != nil {
		return nil, err
	}
	return s.newOutbox(receiver, pool, databaseURL, "worker-"+name)
}

// close stops the worker and drops the database.
func (o *outbox) close(ctx context.Context) {
	o.stopWorker()
	o.stack.dropDatabase(ctx, o.pool)
}

// startWorker runs a worker on the outbox's database, under a supervisor of its own so that it can be stopped alone.
func (o *outbox) startWorker(ctx context.Context) error {
	supervisor, err := process.New(o.stack.dir.Path("log"), o.stack.dir.Path("pids"), o.stack.say)
	if err != nil {
		return err
	}
	o.supervisor = supervisor
	return o.stack.startUnder(ctx, supervisor, o.worker, "worker", "DATABASE_URL="+o.databaseURL)
}

// stopWorker stops the worker, which first finishes the deliveries that it has begun.
func (o *outbox) stopWorker() {
	if o.supervisor != nil {
		o.supervisor.Stop()
	}
}

// subscribe registers a receiver's URL for an account.
func (o *outbox) subscribe(ctx context.Context, account, url string) (owner, endpoint uuid.UUID, err error) {
	if owner, err = ensureAccount(ctx, o.pool, account); err != nil {
		return owner, endpoint, err
	}
	endpoint, err = o.endpoints.register(ctx, owner, url)
	return owner, endpoint, err
}

// subscribeBacklog registers endpoints that share an account's events.
func (o *outbox) subscribeBacklog(ctx context.Context, account, behaviour string, count int) (owner uuid.UUID, err error) {
	for i := range count {
		if owner, _, err = o.subscribe(ctx, account, o.receiver.endpoint(behaviour, i)); err != nil {
			return owner, err
		}
	}
	return owner, nil
}

// turn is one backlog that is worked off.
type turn struct {
	// owner has so many endpoints; events is how many each of them gets.
	owner             uuid.UUID
	endpoints, events int
	// workers are the processes that work it off.
	workers []string
}

// work writes a backlog, all of it visible at once, and measures the deliveries of its middle: at the beginning windows open, and at the
// end they are empty.
func (o *outbox) work(ctx context.Context, t turn) (sample, error) {
	before, err := o.receiver.count(ctx)
	if err != nil {
		return sample{}, err
	}
	total := t.endpoints * t.events
	if err := o.fill(ctx, t.owner, t.events); err != nil {
		return sample{}, err
	}
	first, err := o.await(ctx, before+total/5)
	if err != nil {
		return sample{}, err
	}
	w, err := o.stack.watchWithClient(append([]string{processPostgres, processRedis, roleReceiver}, t.workers...)...)
	if err != nil {
		return sample{}, err
	}
	last, err := o.await(ctx, before+total*19/20)
	if err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	s.operations = last - first
	s.cpu = merged(s.cpu, t.workers)
	if err == nil {
		_, err = o.await(ctx, before+total)
	}
	return s, err
}

// merged puts all workers' time down to one, before the others.
func merged(all []spent, workers []string) []spent {
	own := spent{process: processWorker}
	var others []spent
	for _, one := range all {
		if slices.Contains(workers, one.process) {
			own.cpu += one.cpu
			continue
		}
		others = append(others, one)
	}
	return append([]spent{own}, others...)
}

// fill writes so many events of an account in one transaction, as the product's statements do: through the outbox's
// function.
func (o *outbox) fill(ctx context.Context, owner uuid.UUID, count int) error {
	tx, err := o.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing, once it is committed
	const batch = 2000
	for count > 0 {
		var ids []uuid.UUID
		var bodies [][]byte
		for range min(batch, count) {
			made, err := newEvent()
			if err != nil {
				return err
			}
			ids, bodies = append(ids, made.id), append(bodies, made.body)
		}
		const statement = `SELECT sum(cardinality(webhook_record_event(e.id, $3, $4, e.body)))
			FROM ROWS FROM (unnest($1::uuid[]), unnest($2::bytea[])) AS e (id, body)`
		if _, err := tx.Exec(ctx, statement, ids, bodies, kindScored, owner); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		count -= len(ids)
	}
	return tx.Commit(ctx) // the sweep finds them
}

// await waits until the receiver has counted so many deliveries, and returns the counts.
func (o *outbox) await(ctx context.Context, deliveries int) (now int, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err = poll(ctx, fmt.Sprintf("%d deliveries have come", deliveries), func() (bool, error) {
		now, err = o.receiver.count(ctx)
		return now >= deliveries, err
	})
	return now, err
}
