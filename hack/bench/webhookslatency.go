package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

const (
	// eventRate is in events/s to healthy receivers; each goes to one of them, in turn.
	eventRate = 100
	// writers is how many events may be on their way into PostgreSQL at once.
	writers = 16
)

// committed is an event that was written for a healthy receiver.
type committed struct {
	id uuid.UUID
	at time.Time
}

// audience are the accounts that events are written for, each with one endpoint. Each bad one gets as many events as
// each healthy one; there are fewer of them.
type audience struct{ healthy, bad []uuid.UUID }

// trickle writes events at eventRate and returns how long those to healthy receivers took.
func (o *outbox) trickle(ctx context.Context, to audience, duration time.Duration) (sample, error) {
	if err := o.receiver.tell(ctx, pathRecord); err != nil {
		return sample{}, err
	}
	w, err := o.stack.watchWithClient(o.worker, processPostgres, processRedis, roleReceiver)
	if err != nil {
		return sample{}, err
	}
	events, err := o.write(ctx, to, duration)
	if err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	receipts, err := o.awaitReceipts(ctx, events)
	if err != nil {
		return s, err
	}
	for _, event := range events {
		s.latencies = append(s.latencies, time.Unix(0, receipts[event.id.String()]).Sub(event.at))
	}
	s.operations = len(events)
	return s, o.receiver.tell(ctx, pathEnough)
}

// write writes events as the product does: in a statement, then a wake-up. The schedule waits for nothing.
func (o *outbox) write(ctx context.Context, to audience, duration time.Duration) ([]committed, error) {
	prefix, err := redisPrefix(ctx, o.pool)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	notifier := newNotifier(o.stack.redis, prefix)
	var notifying errgroup.Group
	notifying.Go(func() error { return notifier.Run(running) })
	defer func() {
		stop()
		_ = notifying.Wait() // it never fails
	}()
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	ticker := time.NewTicker(time.Second / eventRate)
	defer ticker.Stop()
	events := make([]committed, int(duration.Seconds()*eventRate))
	for n := range events {
		select {
		case <-within.Done():
			return nil, group.Wait()
		case <-ticker.C:
		}
		place := n % len(to.healthy)
		group.Go(func() (err error) {
			events[n], err = o.writeOne(within, to.healthy[place], notifier)
			return err
		})
		if place < len(to.bad) {
			group.Go(func() error {
				_, err := o.writeOne(within, to.bad[place], notifier)
				return err
			})
		}
	}
	return events, group.Wait()
}

func (o *outbox) writeOne(ctx context.Context, owner uuid.UUID, wake *notifier) (committed, error) {
	made, err := newEvent()
	if err != nil {
		return committed{}, err
	}
	const statement = "SELECT webhook_record_event($1, $2, $3, $4)"
	var endpoints []uuid.UUID
	if err := o.pool.QueryRow(ctx, statement, made.id, kindScored, owner, made.body).Scan(&endpoints); err != nil {
		return committed{}, fmt.Errorf("write event: %w", err)
	}
	written := committed{id: made.id, at: time.Now()}
	wake.Notify(endpoints...)
	return written, nil
}

// awaitReceipts waits until every event has come.
func (o *outbox) awaitReceipts(ctx context.Context, events []committed) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var receipts map[string]int64
	err := poll(ctx, "all events have come", func() (all bool, err error) {
		receipts, err = o.receiver.receipts(ctx)
		for _, event := range events {
			if _, came := receipts[event.id.String()]; !came {
				return false, err
			}
		}
		return true, err
	})
	return receipts, err
}
