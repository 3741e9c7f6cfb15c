package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	// retryEndpoints is how many endpoints have retries, retryEvery the time between two of them.
	retryEndpoints = 8
	retryEvery     = 100 * time.Millisecond
	// retryTimes is for how many durations retries are written.
	retryTimes = 4
)

// measureDisabled has a worker cancel the pending deliveries of a disabled endpoint. It measures from when the retries of other endpoints
// are due until they come. A worker finds retries by its sweep, which finds the disabled endpoint too.
func measureDisabled(ctx context.Context, o *outbox, duration time.Duration, r *report) error {
	owner, disabled, err := o.subscribe(ctx, "bench-disabled", o.receiver.endpoint(behaviourHanging, 0))
	if err != nil {
		return err
	}
	if _, err := o.pool.Exec(ctx, "UPDATE webhook_endpoints SET status = 'disabled' WHERE id = $1", disabled); err != nil {
		return fmt.Errorf("disable an endpoint: %w", err)
	}
	count := o.stack.share(disabledRows)
	o.stack.say("writing %d deliveries of a disabled endpoint", count)
	if err := o.load(ctx, waitingRows{owner: owner, endpoint: disabled, count: count, isDue: true}); err != nil {
		return err
	}
	var endpoints []uuid.UUID // younger than the disabled one
	for n := range retryEndpoints {
		_, endpoint, err := o.subscribe(ctx, fmt.Sprintf("bench-retries-%d", n), o.receiver.endpoint(behaviourGood, 1+n))
		if err != nil {
			return err
		}
		endpoints = append(endpoints, endpoint)
	}
	if err := o.receiver.tell(ctx, pathRecord); err != nil {
		return err
	}
	if err := o.startWorker(ctx); err != nil {
		return err
	}
	var retries []committed
	for n := range int(retryTimes * duration / retryEvery) {
		retry, err := o.writeRetry(ctx, owner, endpoints[n%len(endpoints)])
		if err != nil {
			return err
		}
		retries = append(retries, retry)
		if !wait(ctx, time.NewTimer(retryEvery), retryEvery) {
			return context.Cause(ctx)
		}
	}
	waits, err := o.awaitReceiptsOf(ctx, retries)
	if err != nil {
		return err
	}
	var left int
	if err := o.pool.QueryRow(ctx, "SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1 AND state = 'pending'", disabled).Scan(&left); err != nil {
		return fmt.Errorf("count deliveries: %w", err)
	}
	r.notef("At the end %d deliveries of the disabled endpoint were still pending.", left)
	return o.stack.judgeDelays(r, waits, fmt.Sprintf("bulk: retry after its time, %d deliveries of a disabled endpoint pending", count), 2*time.Second)
}

// writeRetry writes a delivery whose first attempt failed and that is due in a second. Its time is when it is due.
func (o *outbox) writeRetry(ctx context.Context, owner, endpoint uuid.UUID) (committed, error) {
	made, err := newEvent()
	if err != nil {
		return committed{}, err
	}
	retry := committed{id: made.id}
	const statement = `
		WITH event AS (INSERT INTO webhook_events (id, kind, account_id, body) VALUES ($1, $2, $3, $4))
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, attempt, next_attempt_at)
		VALUES (uuidv7(), $1, $5, $2, 1, now() + interval '1 second') RETURNING next_attempt_at`
	if err := o.pool.QueryRow(ctx, statement, made.id, kindScored, owner, made.body, endpoint).Scan(&retry.at); err != nil {
		return committed{}, fmt.Errorf("write a retry: %w", err)
	}
	return retry, nil
}
