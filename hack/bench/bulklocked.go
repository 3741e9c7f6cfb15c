package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// goodEndpoints is the number of endpoints whose rows are not locked.
const goodEndpoints = 40

// measureLocked has a transaction lock rows of deliveries whose responses then come. It measures from the response of each other
// delivery until the delivery is recorded. setting is one of PostgreSQL's that is a second for all sessions of the database; "" for none.
func measureLocked(setting string) func(context.Context, *outbox, time.Duration, *report) error {
	return func(ctx context.Context, o *outbox, duration time.Duration, r *report) error {
		what := fmt.Sprintf("bulk: from response to record, %d rows locked", lockedRows)
		if setting != "" {
			what += ", " + setting
			name := pgx.Identifier{o.pool.Config().ConnConfig.Database}.Sanitize()
			if _, err := o.pool.Exec(ctx, "ALTER DATABASE "+name+" SET "+setting+" = '1s'"); err != nil {
				return fmt.Errorf("set %s: %w", setting, err)
			}
		}
		var good []uuid.UUID
		for n := range goodEndpoints {
			owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-good-%d", n), o.receiver.endpoint(behaviourGood, n%hosts))
			if err != nil {
				return err
			}
			good = append(good, owner)
		}
		if err := o.startWorker(ctx); err != nil {
			return err
		}
		locked, err := o.lockRows(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = locked.Rollback(context.WithoutCancel(ctx)) }()
		before, err := o.receiver.count(ctx)
		if err != nil {
			return err
		}
		if err := o.receiver.tell(ctx, pathRecord); err != nil {
			return err
		}
		if err := o.receiver.tell(ctx, pathRelease); err != nil { // the responses of the locked rows come now
			return err
		}
		events, waits, err := o.writeAndWatch(ctx, audience{healthy: good}, duration)
		if err != nil {
			return err
		}
		after, err := o.receiver.count(ctx)
		if err != nil {
			return err
		}
		r.notef("%s: the receiver got %d requests for %d deliveries.", what, after-before, events)
		return o.stack.judgeDelays(r, waits, what, 2*time.Second)
	}
}

// lockRows sends a delivery to each of lockedRows endpoints that hang, and locks the rows of all. End the transaction.
func (o *outbox) lockRows(ctx context.Context) (pgx.Tx, error) {
	prefix, err := redisPrefix(ctx, o.pool)
	if err != nil {
		return nil, err
	}
	wake := newNotifier(o.stack.redis, prefix)
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = wake.Run(running) }() // it never fails
	for n := range lockedRows {
		owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-locked-%d", n), o.receiver.endpoint(behaviourHanging, n%hosts))
		if err != nil {
			return nil, err
		}
		if _, err := o.writeOne(ctx, owner, wake); err != nil {
			return nil, err
		}
	}
	within, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = poll(within, "all attempts are in flight", func() (bool, error) {
		found, err := o.stack.metricsOf(ctx, o.worker)
		return found.sum("examprep_webhook_in_flight") == lockedRows, err
	})
	if err != nil {
		return nil, err
	}
	tx, err := o.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock rows: %w", err)
	}
	tag, err := tx.Exec(ctx, "SELECT FROM webhook_deliveries WHERE state = 'pending' FOR UPDATE")
	if err == nil && tag.RowsAffected() != lockedRows {
		err = fmt.Errorf("%d rows are pending", tag.RowsAffected())
	}
	if err != nil {
		_ = tx.Rollback(ctx)
		return nil, fmt.Errorf("lock rows: %w", err)
	}
	return tx, nil
}

// writeAndWatch writes events for a while, and waits until their deliveries are recorded, for longestBulkDelay at most. It returns how long
// each record took from its response on.
func (o *outbox) writeAndWatch(ctx context.Context, to audience, duration time.Duration) (events int, waits *delays, err error) {
	var written []committed
	recorded := map[uuid.UUID]time.Time{}
	done := make(chan struct{})
	group, within := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer close(done)
		written, err = o.write(within, to, duration)
		return err
	})
	group.Go(func() error {
		within, cancel := context.WithTimeout(within, duration+longestBulkDelay)
		defer cancel()
		err := poll(within, "all deliveries are recorded", func() (bool, error) {
			err := o.readRecords(within, recorded)
			return isClosed(done) && len(recorded) >= len(written), err
		})
		if within.Err() != nil {
			return nil // those that are missing are counted
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, nil, err
	}
	receipts, err := o.receiver.receipts(ctx)
	waits = &delays{}
	for _, event := range written {
		answered := event.at // if no response came
		if at, came := receipts[event.id.String()]; came {
			answered = time.Unix(0, at)
		}
		if at := recorded[event.id]; at.IsZero() {
			waits.addMissing(answered)
		} else {
			waits.add(at.Sub(answered))
		}
	}
	return len(written), waits, err
}

// readRecords notes when a delivery was first seen to be recorded, by its event.
func (o *outbox) readRecords(ctx context.Context, recorded map[uuid.UUID]time.Time) error {
	rows, err := o.pool.Query(ctx, "SELECT event_id FROM webhook_deliveries WHERE state = 'delivered'")
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, id := range ids {
		if recorded[id].IsZero() {
			recorded[id] = time.Now()
		}
	}
	return err
}
