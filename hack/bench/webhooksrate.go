package main

import (
	"context"
	"fmt"
	"time"

	"examprep.dev/hack/bench/baseline"
)

// windowSize is how many deliveries a worker has in flight to each endpoint of a backlog: an eighth of the places, of 1,024,
// that the other endpoints leave.
const windowSize = 85

// measureRate compares what one worker delivers with a loop that only posts, in turns.
func (o *outbox) measureRate(ctx context.Context, duration time.Duration, r *report) error {
	made, err := newEvent()
	if err != nil {
		return err
	}
	var urls []string
	for i := range backlogEndpoints {
		urls = append(urls, o.receiver.endpoint(behaviourGood, i))
	}
	loop := baseline.NewPosts(o.stack.certificate.trust(), urls, windowSize, made.id.String(), made.body)
	owner, err := o.subscribeBacklog(ctx, "bench-backlog", behaviourGood, backlogEndpoints)
	if err != nil {
		return err
	}
	events := int(duration.Seconds() * backlogRate / backlogEndpoints)
	own := turn{owner: owner, endpoints: backlogEndpoints, events: events, workers: []string{o.worker}}
	warm := own
	warm.events /= 4
	if _, err := o.work(ctx, warm); err != nil {
		return err
	}
	if _, err := loop.Run(ctx, time.Second); err != nil {
		return err
	}
	o.stack.say("%d deliveries a turn, one worker", events*backlogEndpoints)
	bare := &contender{run: func(ctx context.Context) (sample, error) { return o.post(ctx, loop, duration/2) }}
	delivered := &contender{run: func(ctx context.Context) (sample, error) { return o.work(ctx, own) }}
	if err := takeTurns(ctx, webhookTurns, bare, delivered); err != nil {
		return err
	}
	r.medians("deliveries of a backlog, one worker", delivered.turns)
	r.use("delivery", delivered.turns, processWorker, processPostgres)
	r.medians(fmt.Sprintf("  the same signed POSTs, %d at once, nothing else", backlogEndpoints*windowSize), bare.turns)
	r.judge(verdict{
		what: "webhooks: rate / that of bare POSTs", unit: "×", bar: 0.42, goal: 0.5, least: true,
		measured: ratio(delivered.turns, bare.turns, (*sample).rate),
	})
	all := func(one *sample) float64 {
		return one.micros(processWorker, processPostgres, processRedis, roleReceiver)
	}
	r.notef("webhooks: CPU of a bare POST / of a delivery, all processes: %.2f×. Other load on the machine changes this less than the rate.",
		quotient(bare.turns, func(one *sample) float64 { return one.micros(roleReceiver, processClient) }, delivered.turns, all))
	return o.stack.noteStatements(ctx, o.pool, "a delivery", r, func(ctx context.Context) (int, error) {
		counted, err := o.work(ctx, own)
		return counted.operations, err
	})
}

// post measures the bare loop.
func (o *outbox) post(ctx context.Context, loop *baseline.Posts, duration time.Duration) (sample, error) {
	w, err := o.stack.watchWithClient(roleReceiver)
	if err != nil {
		return sample{}, err
	}
	posted, err := loop.Run(ctx, duration)
	if err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	s.operations = posted
	return s, err
}
