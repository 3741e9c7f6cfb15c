package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/webhooks"
)

const (
	// backlogEndpoints share a backlog: with a worker's window of 64 each they fill its 256 places.
	backlogEndpoints = 4
	// backlogRate is how many deliveries a worker could make at most, per second; so much backlog is prepared.
	backlogRate = 8000
	// countEvery is how often the receiver's count is looked at.
	countEvery = 20 * time.Millisecond
)

// measureWebhooks compares what one worker delivers with a loop that only posts, then measures how long events take.
func measureWebhooks(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	receiver, err := s.startReceiver(ctx)
	if err != nil {
		return err
	}
	w, err := s.newOutbox(receiver)
	if err != nil {
		return err
	}
	posts, err := w.newPosts()
	if err != nil {
		return err
	}
	bare, err := posts.measure(ctx, duration/2)
	if err != nil {
		return err
	}
	delivered, err := w.deliverBacklog(ctx, duration, r)
	if err != nil {
		return err
	}
	after, err := posts.measure(ctx, duration/2) // around the worker's turn: the machine drifts
	if err != nil {
		return err
	}
	bare.add(after)
	r.row("deliveries of a backlog, one worker", &delivered)
	r.row(fmt.Sprintf("  the same signed POSTs, %d at once, nothing else", backlogEndpoints*windowSize), &bare)
	r.judge(verdict{what: "webhooks: rate / that of bare POSTs", unit: "×", target: 0.4, least: true, measured: delivered.rate() / bare.rate()})
	return w.measureLatency(ctx, duration, r)
}

// outbox writes events as the product does, for endpoints of the receiver.
type outbox struct {
	stack     *stack
	receiver  *remote
	accounts  *keys.Store
	endpoints *webhooks.Endpoints
}

func (s *stack) newOutbox(receiver *remote) (*outbox, error) {
	keyring, err := webhooks.ParseKeyring(s.encryptionKeys)
	if err != nil {
		return nil, err
	}
	return &outbox{
		stack: s, receiver: receiver, accounts: keys.NewStore(s.pool, silent{}),
		endpoints: webhooks.NewEndpoints(s.pool, keyring, []netip.Prefix{loopback()}),
	}, nil
}

// subscribe registers one of the receiver's endpoints for an account.
func (o *outbox) subscribe(ctx context.Context, account string, number int) (owner, endpoint uuid.UUID, err error) {
	if owner, err = o.accounts.EnsureAccount(ctx, account); err != nil {
		return owner, endpoint, err
	}
	registered, _, err := o.endpoints.Register(ctx, webhooks.Registration{
		AccountID: owner, URL: o.receiver.endpoint(number), Events: []webhooks.Kind{webhooks.KindScored},
	})
	return owner, registered.ID, err
}

// deliverBacklog writes a backlog, starts a worker, and measures it in its stride. What is left then is cancelled.
func (o *outbox) deliverBacklog(ctx context.Context, duration time.Duration, r *report) (sample, error) {
	var owner uuid.UUID
	var endpoints []uuid.UUID
	for i := range backlogEndpoints {
		account, endpoint, err := o.subscribe(ctx, "bench-backlog", i)
		if err != nil {
			return sample{}, err
		}
		owner, endpoints = account, append(endpoints, endpoint)
	}
	total := int(duration.Seconds()+2) * backlogRate
	if err := o.fill(ctx, owner, total/backlogEndpoints); err != nil {
		return sample{}, err
	}
	o.stack.say("%d deliveries wait", total)
	s, err := o.stride(ctx, total, duration, r)
	if err != nil {
		return s, err
	}
	for _, endpoint := range endpoints {
		if err := o.endpoints.Delete(ctx, owner, endpoint); err != nil {
			return s, err
		}
	}
	return s, nil
}

// stride starts a worker on a backlog and measures it for a while, or until little is left.
func (o *outbox) stride(ctx context.Context, backlog int, duration time.Duration, r *report) (sample, error) {
	before, err := o.receiver.count(ctx)
	if err != nil {
		return sample{}, err
	}
	if err := o.stack.start(ctx, processWorker, "worker"); err != nil {
		return sample{}, err
	}
	// Its windows begin small.
	first, err := o.await(ctx, before.deliveries+backlog/20, startTime)
	if err != nil {
		return sample{}, err
	}
	w, err := o.stack.watchWithClient(processWorker, processPostgres, processRedis, roleReceiver)
	if err != nil {
		return sample{}, err
	}
	last, err := o.await(ctx, before.deliveries+backlog*19/20, duration)
	if err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	s.operations = last.deliveries - first.deliveries
	r.notef("The worker opened %d connections for %d deliveries.", last.connections-first.connections, s.operations)
	return s, err
}

// fill writes so many events of an account, as the product's statements do: through the outbox's function.
func (o *outbox) fill(ctx context.Context, owner uuid.UUID, count int) error {
	const batch = 2000
	for count > 0 {
		var ids []uuid.UUID
		var bodies [][]byte
		for range min(batch, count) {
			event, err := scoredEvent(examKey + "-0000")
			if err != nil {
				return err
			}
			ids, bodies = append(ids, event.ID), append(bodies, event.Body)
		}
		const statement = `SELECT sum(webhook_record_event(e.id, $3, $4, e.body))
			FROM ROWS FROM (unnest($1::uuid[]), unnest($2::bytea[])) AS e (id, body)`
		if _, err := o.stack.pool.Exec(ctx, statement, ids, bodies, webhooks.KindScored, owner); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		count -= len(ids)
	}
	return nil
}

// await waits until the receiver has counted so many deliveries, or a time has passed, and returns the counts.
func (o *outbox) await(ctx context.Context, deliveries int, limit time.Duration) (counts, error) {
	ticker := time.NewTicker(countEvery)
	defer ticker.Stop()
	until := time.Now().Add(limit)
	for {
		now, err := o.receiver.count(ctx)
		if err != nil || now.deliveries >= deliveries || time.Now().After(until) {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
