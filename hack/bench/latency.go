package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/webhooks"
)

const (
	// eventRate is in events/s; each goes to one of as many endpoints, in turn.
	eventRate = 100
	endpoints = 10
)

// committed is an event that was written.
type committed struct {
	id uuid.UUID
	at time.Time
	// healthy tells that its receiver never hangs.
	healthy bool
}

// measureLatency measures from commit to receipt, with all receivers healthy, then with one hanging. A worker runs.
func (o *outbox) measureLatency(ctx context.Context, duration time.Duration, r *report) error {
	var owners []uuid.UUID
	for i := range endpoints {
		owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-endpoint-%d", i), i)
		if err != nil {
			return err
		}
		owners = append(owners, owner)
	}
	if _, err := o.trickle(ctx, owners, time.Second); err != nil { // connections are made, secrets read
		return err
	}
	duration *= 2 // a percentile of few events says little
	healthy, err := o.trickle(ctx, owners, duration)
	if err != nil {
		return err
	}
	if err := o.receiver.tell(ctx, pathHang); err != nil {
		return err
	}
	beside, err := o.trickle(ctx, owners, duration)
	if err := errors.Join(err, o.receiver.tell(ctx, pathRelease)); err != nil {
		return err
	}
	r.row(fmt.Sprintf("%d events/s, from commit to receipt", eventRate), &healthy)
	r.row(fmt.Sprintf("  the same, 1 of %d receivers hanging, the others", endpoints), &beside)
	r.judge(verdict{
		what: "webhooks: healthy p99 with a hanging receiver / without", unit: "×", target: 1.2,
		measured: beside.percentile(0.99).Seconds() / healthy.percentile(0.99).Seconds(),
	})
	return nil
}

// trickle writes events at eventRate and returns how long those to healthy receivers took.
func (o *outbox) trickle(ctx context.Context, owners []uuid.UUID, duration time.Duration) (sample, error) {
	if err := o.receiver.tell(ctx, pathRecord); err != nil {
		return sample{}, err
	}
	w, err := o.stack.watchWithClient(processWorker, processPostgres, processRedis, roleReceiver)
	if err != nil {
		return sample{}, err
	}
	events, err := o.write(ctx, owners, duration)
	if err != nil {
		return sample{}, err
	}
	receipts, err := o.awaitReceipts(ctx, events)
	if err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	for _, event := range events {
		if at, came := receipts[event.id.String()]; came && event.healthy {
			s.latencies = append(s.latencies, time.Unix(0, at).Sub(event.at))
		}
	}
	s.operations = len(events)
	return s, nil
}

// write writes events as the product does: in a statement, then a word to the relays.
func (o *outbox) write(ctx context.Context, owners []uuid.UUID, duration time.Duration) ([]committed, error) {
	running, stop := context.WithCancel(ctx)
	notifier := webhooks.NewNotifier(o.stack.pool)
	var group errgroup.Group
	group.Go(func() error { return notifier.Run(running) })
	defer func() {
		stop()
		_ = group.Wait() // it never fails
	}()
	ticker := time.NewTicker(time.Second / eventRate)
	defer ticker.Stop()
	var events []committed
	for n := range int(duration.Seconds() * eventRate) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
		event, err := scoredEvent(examKey + "-0000")
		if err != nil {
			return nil, err
		}
		const statement = "SELECT webhook_record_event($1, $2, $3, $4)"
		if _, err := o.stack.pool.Exec(ctx, statement, event.ID, event.Kind, owners[n%endpoints], event.Body); err != nil {
			return nil, fmt.Errorf("write event: %w", err)
		}
		events = append(events, committed{id: event.ID, at: time.Now(), healthy: n%endpoints != 0})
		notifier.Notify()
	}
	return events, nil
}

// awaitReceipts waits until every event to a healthy receiver has come.
func (o *outbox) awaitReceipts(ctx context.Context, events []committed) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	ticker := time.NewTicker(countEvery)
	defer ticker.Stop()
	for {
		receipts, err := o.receiver.receipts(ctx)
		if err != nil {
			return nil, err
		}
		missing := 0
		for _, event := range events {
			if _, came := receipts[event.id.String()]; !came && event.healthy {
				missing++
			}
		}
		if missing == 0 {
			return receipts, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d events have not come: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
