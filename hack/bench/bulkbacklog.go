package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// slowCommit, in µs, makes leases what limits a worker, as a slow disk does.
	slowCommit = 15_000
	// newEndpoints is how many endpoints are new at most, newEvery the time between two of them.
	newEndpoints = 30
	newEvery     = 400 * time.Millisecond
	// backlogLeft is the percentage of the backlog that must be left when an endpoint is new.
	backlogLeft = 10
	// windowsOpen is how long the worker has had the backlog then.
	windowsOpen = 2 * time.Second
)

// measureBacklog has a worker work off the backlog of many endpoints that respond at once. It measures from the first event of each new
// endpoint to its delivery. Commits wait delay µs.
func measureBacklog(delay int) func(context.Context, *outbox, time.Duration, *report) error {
	return func(ctx context.Context, o *outbox, _ time.Duration, r *report) (err error) {
		each := max(o.stack.share(backlogRows), backlogRows/10) / healthyBacklogs
		for n := range healthyBacklogs {
			owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-backlog-%d", n), o.receiver.endpoint(behaviourGood, n%hosts))
			if err != nil {
				return err
			}
			if err := o.fill(ctx, owner, each); err != nil {
				return err
			}
		}
		if err := o.stack.setCommitDelay(ctx, delay); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.stack.setCommitDelay(context.WithoutCancel(ctx), 0)) }()
		if err := o.receiver.tell(ctx, pathRecord); err != nil {
			return err
		}
		if err := o.startWorker(ctx); err != nil {
			return err
		}
		if !wait(ctx, time.NewTimer(windowsOpen), windowsOpen) {
			return context.Cause(ctx)
		}
		events, err := o.addEndpoints(ctx, healthyBacklogs*each*backlogLeft/100)
		if err != nil {
			return err
		}
		waits, err := o.awaitReceiptsOf(ctx, events)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("bulk: first delivery of a new endpoint, backlog of %d × %d", healthyBacklogs, each)
		if delay > 0 {
			what += fmt.Sprintf(", commit_delay %d", delay)
		}
		return o.stack.judgeDelays(r, waits, what, 2*time.Second)
	}
}

// addEndpoints makes new endpoints and writes an event for each, while more deliveries than left are pending.
func (o *outbox) addEndpoints(ctx context.Context, left int) (events []committed, err error) {
	prefix, err := redisPrefix(ctx, o.pool)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	wake := newNotifier(o.stack.redis, prefix)
	go func() { _ = wake.Run(running) }() // it never fails
	for n := range newEndpoints {
		var pending int
		if err := o.pool.QueryRow(ctx, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'").Scan(&pending); err != nil {
			return nil, fmt.Errorf("count deliveries: %w", err)
		}
		if pending <= left {
			break
		}
		owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-new-%d", n), o.receiver.endpoint(behaviourGood, n%hosts))
		if err != nil {
			return nil, err
		}
		event, err := o.writeOne(ctx, owner, wake)
		if err != nil {
			return nil, err
		}
		events = append(events, event)
		if !wait(ctx, time.NewTimer(newEvery), newEvery) {
			return nil, context.Cause(ctx)
		}
	}
	return events, nil
}
