package main

import (
	"context"
	"fmt"
	"time"
)

// measureRate compares what one worker delivers with a loop that only posts, in turns.
func (o *outbox) measureRate(ctx context.Context, duration time.Duration, r *report) error {
	posts, err := o.newPosts()
	if err != nil {
		return err
	}
	owner, err := o.subscribeBacklog(ctx, "bench-backlog", behaviourGood, backlogEndpoints)
	if err != nil {
		return err
	}
	events := int(duration.Seconds() * backlogRate / backlogEndpoints)
	own := turn{owner: owner, endpoints: backlogEndpoints, events: events, workers: []string{o.worker}}
	if err := o.warm(ctx, own, posts); err != nil {
		return err
	}
	o.stack.say("%d deliveries a turn, one worker", events*backlogEndpoints)
	var bare, delivered sample
	var ratios []float64
	for range webhookTurns {
		alone, err := posts.measure(ctx, duration/2)
		if err != nil {
			return err
		}
		worked, err := o.work(ctx, own)
		if err != nil {
			return err
		}
		bare.add(alone)
		delivered.add(worked)
		ratios = append(ratios, worked.rate()/alone.rate())
	}
	r.row("deliveries of a backlog, one worker", &delivered)
	r.row(fmt.Sprintf("  the same signed POSTs, %d at once, nothing else", backlogEndpoints*windowSize), &bare)
	r.judge(verdict{what: "webhooks: rate / that of bare POSTs, median turn", unit: "×", target: 0.4, least: true, measured: median(ratios)})
	r.judge(verdict{
		what: "webhooks: CPU of a bare POST / of a delivery, all processes", unit: "×", target: 0.4, least: true,
		measured: bare.micros(roleReceiver, processClient) / delivered.micros(processWorker, processPostgres, processRedis, roleReceiver),
	})
	return nil
}

// warm opens connections and windows.
func (o *outbox) warm(ctx context.Context, t turn, posts *posts) error {
	t.events /= 4
	if _, err := o.work(ctx, t); err != nil {
		return err
	}
	_, err := posts.measure(ctx, time.Second)
	return err
}
