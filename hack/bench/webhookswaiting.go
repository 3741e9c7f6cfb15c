package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

const (
	// fewWaiting is how many deliveries wait in the databases that the one with many is compared with.
	fewWaiting = 1000
	// waitingChunk is how many rows one statement of the load writes, sharing is how many of them have an event in common.
	waitingChunk = 50_000
	sharing      = 10
	// parkTime is the longest that workers put off what is due at a receiver that cannot take it.
	parkTime = time.Hour
)

// waiting is an outbox where so many deliveries wait, each kind on top of the one before.
type waiting struct {
	*outbox

	count int
	turn  turn
	// sum is what its turns measured, costs the CPU-µs of a delivery in each of them, rates how many a second.
	sum          sample
	costs, rates []float64
}

// measureWaiting compares the cost of a delivery while many wait with its cost while few do. The workers, each on a
// database of its own in the same PostgreSQL, are given the same in turn, and halted while it is another's. Few wait in
// two of the databases: how far these are apart is what such a comparison is worth.
func (o *outbox) measureWaiting(ctx context.Context, duration time.Duration, r *report) error {
	var all []*waiting
	defer func() {
		for _, w := range all {
			w.close(context.WithoutCancel(ctx))
		}
	}()
	for i, count := range []int{fewWaiting, o.stack.waiting, fewWaiting} {
		w, err := o.openWaiting(ctx, fmt.Sprintf("waiting_%d", i), count, duration)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	for _, kind := range []struct {
		name   string
		isDue  bool
		within time.Duration
	}{{"wait for a retry", false, 2 * time.Hour}, {"are due at a receiver that hangs", true, parkTime}} {
		for _, w := range all {
			if err := w.wait(ctx, kind.isDue, kind.within); err != nil {
				return err
			}
		}
		if err := takeWaitingTurns(ctx, all); err != nil {
			return err
		}
		judgeWaiting(kind.name, all[0], all[1], all[2], r)
	}
	r.notef("What is due at a receiver that hangs was put off before, as workers do that meet it: it comes up again within %s.", parkTime)
	return o.receiver.tell(ctx, pathRelease)
}

func takeWaitingTurns(ctx context.Context, all []*waiting) error {
	for _, w := range all {
		w.sum, w.costs, w.rates = sample{}, nil, nil
	}
	for n := range webhookTurns + 1 {
		for _, w := range all {
			measured, err := w.workAlone(ctx, all)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // windows and connections opened
			}
			w.sum.add(measured)
			w.costs = append(w.costs, measured.micros(processWorker, processPostgres, processRedis))
			w.rates = append(w.rates, measured.rate())
		}
	}
	return nil
}

// judgeWaiting compares each turn of the many with the turns of the few before and after it, and these with each other.
func judgeWaiting(what string, before, many, after *waiting, r *report) {
	r.row(fmt.Sprintf("deliveries while %d others %s", many.count, what), &many.sum)
	for _, few := range []*waiting{before, after} {
		r.row(fmt.Sprintf("  the same while %d others do", few.count), &few.sum)
	}
	costs, apart := compareTurns(before.costs, many.costs, after.costs)
	rates, ratesApart := compareTurns(before.rates, many.rates, after.rates)
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: CPU of a delivery while %d / %d %s, median turn", many.count, before.count, what),
		unit: "×", bar: 1.1, measured: median(costs),
	})
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: rate while %d / %d %s, median turn", many.count, before.count, what),
		unit: "×", bar: 0.9, least: true, measured: median(rates),
	})
	r.notef("While %d / %d %s, turn by turn: CPU %s, rate %s. Of two databases where %d do, as often: CPU %s, rate %s.",
		many.count, before.count, what, turnByTurn(costs), turnByTurn(rates), before.count, turnByTurn(apart), turnByTurn(ratesApart))
}

// compareTurns returns for each turn the many's figure by the mean of the few's, and one of these by the other.
func compareTurns(before, many, after []float64) (compared, apart []float64) {
	for i := range many {
		compared = append(compared, 2*many[i]/(before[i]+after[i]))
		apart = append(apart, after[i]/before[i])
	}
	return compared, apart
}

func turnByTurn(all []float64) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, fmt.Sprintf("%.2f", one))
	}
	return strings.Join(texts, " ") + " ×"
}

// workAlone works a turn off while the others' workers stand still: what they do for their own waiting deliveries would
// be counted here, since all have the same PostgreSQL and Redis.
func (w *waiting) workAlone(ctx context.Context, all []*waiting) (sample, error) {
	var halted []int
	defer func() {
		for _, pid := range halted {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	for _, other := range all {
		if other == w {
			continue
		}
		processes, err := w.stack.watched(other.worker)
		if err != nil {
			return sample{}, err
		}
		pid := processes[0].pid
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return sample{}, fmt.Errorf("halt %s: %w", other.worker, err)
		}
		halted = append(halted, pid)
	}
	return w.work(ctx, w.turn)
}

// openWaiting makes a database with a worker of its own, and endpoints for what is measured.
func (o *outbox) openWaiting(ctx context.Context, name string, count int, duration time.Duration) (*waiting, error) {
	own, err := o.stack.openOutbox(ctx, o.receiver, name)
	if err != nil {
		return nil, err
	}
	w := &waiting{outbox: own, count: count}
	w.turn = turn{
		endpoints: backlogEndpoints, events: int(duration.Seconds() * backlogRate / backlogEndpoints), workers: []string{own.worker},
	}
	if w.turn.owner, err = w.subscribeBacklog(ctx, "bench-backlog", behaviourGood, backlogEndpoints); err != nil {
		return nil, err
	}
	if err := w.startWorker(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// wait writes the deliveries that wait: for a retry, none of which comes while this measures, or due and put off. The relay
// looks at them within that time, one after the other.
func (w *waiting) wait(ctx context.Context, isDue bool, within time.Duration) error {
	url := w.receiver.endpoint(behaviourHanging, backlogEndpoints)
	owner, endpoint, err := w.subscribe(ctx, fmt.Sprintf("bench-waiting-%t", isDue), url)
	if err != nil {
		return err
	}
	return w.load(ctx, waitingRows{owner: owner, endpoint: endpoint, count: w.count, isDue: isDue, within: within})
}

// waitingRows are deliveries to an endpoint that wait: due, or due at some time within.
type waitingRows struct {
	owner, endpoint uuid.UUID
	count           int
	isDue           bool
	within          time.Duration
}

// load writes rows that wait.
func (o *outbox) load(ctx context.Context, rows waitingRows) error {
	began := time.Now()
	for left := rows.count; left > 0; left -= waitingChunk {
		if err := o.loadChunk(ctx, rows, min(left, waitingChunk)); err != nil {
			return fmt.Errorf("write deliveries that wait: %w", err)
		}
	}
	// As autovacuum does within a minute: here it would do so in somebody's turn.
	for _, statement := range []string{"VACUUM (ANALYZE) webhook_events, webhook_deliveries", "CHECKPOINT"} {
		if err := o.stack.maintain(ctx, o.pool, statement); err != nil {
			return err
		}
	}
	o.stack.say("%d deliveries wait, written in %.0f s", rows.count, time.Since(began).Seconds())
	return nil
}

func (o *outbox) loadChunk(ctx context.Context, rows waitingRows, count int) error {
	made, err := newEvent()
	if err != nil {
		return err
	}
	const statement = `
		WITH event AS (
			INSERT INTO webhook_events (id, kind, account_id, body)
			SELECT uuidv7(), $1, $2, $3 FROM generate_series(1, $4::int / $5::int)
			RETURNING id
		)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, attempt, created_at, next_attempt_at)
		SELECT uuidv7(), event.id, $6, $1, 1, clock_timestamp(), CASE WHEN $7 THEN now() ELSE later.at END
		FROM event, generate_series(1, $5::int) AS copy,
		     LATERAL (SELECT now() + $8::float8 * greatest(random() * (copy > 0)::int, 0.25 * (NOT $7)::int) * interval '1 second' AS at) AS later`
	_, err = o.pool.Exec(ctx, statement, kindScored, rows.owner, made.body, count, sharing, rows.endpoint, rows.isDue, rows.within.Seconds())
	return err
}
