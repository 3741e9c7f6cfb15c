package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// scalingTurns is how often 1, 2 and 4 workers take turns. It is odd, for the median.
	scalingTurns = 3
	// mostWorkers is how many there are at last.
	mostWorkers = 4
	// slowRate is what a worker's windows let pass to one endpoint that takes slowAnswer, per second: a ninth of its places.
	slowRate = 1024 / 9 * int(time.Second/slowAnswer)
	// slowTime, in seconds, is how long a backlog of those lasts: windows take a while to open.
	slowTime = 5
)

// scaling is what so many workers did.
type scaling struct {
	workers    int
	fast, slow sample
	// fastRates and slowRates are of each turn, costs in CPU-µs.
	fastRates, slowRates, costs []float64
}

// measureScaling gives backlogs to 1, 2 and 4 workers, in turns: one that all cores are needed for, and one whose
// receiver takes its time, where only what may be in flight bounds the rate.
func (o *outbox) measureScaling(ctx context.Context, duration time.Duration, r *report) error {
	fast, err := o.subscribeBacklog(ctx, "bench-scaling", behaviourGood, backlogEndpoints)
	if err != nil {
		return err
	}
	slow, err := o.subscribeBacklog(ctx, "bench-slow", behaviourSlow, 1)
	if err != nil {
		return err
	}
	all := []*scaling{{workers: 1}, {workers: 2}, {workers: mostWorkers}}
	o.stack.say("1 to %d workers", mostWorkers)
	for range scalingTurns {
		for _, s := range all {
			events := int(duration.Seconds() * backlogRate / backlogEndpoints / 2)
			own := turn{owner: fast, endpoints: backlogEndpoints, events: events}
			late := turn{owner: slow, endpoints: 1, events: slowTime * slowRate * s.workers}
			if err := o.scale(ctx, s, own, late); err != nil {
				return err
			}
		}
	}
	reportScaling(r, all)
	return nil
}

// scale has both backlogs worked off by so many workers.
func (o *outbox) scale(ctx context.Context, s *scaling, fast, slow turn) error {
	names, stop, err := o.moreWorkers(ctx, s.workers-1)
	defer stop()
	if err != nil {
		return err
	}
	fast.workers, slow.workers = names, names
	if _, err := o.work(ctx, fast); err != nil { // connections are made, windows open
		return err
	}
	quick, err := o.work(ctx, fast)
	if err != nil {
		return err
	}
	late, err := o.work(ctx, slow)
	if err != nil {
		return err
	}
	s.fast.add(quick)
	s.slow.add(late)
	s.fastRates, s.slowRates = append(s.fastRates, quick.rate()), append(s.slowRates, late.rate())
	s.costs = append(s.costs, quick.micros(processWorker, processPostgres, processRedis))
	return nil
}

// moreWorkers starts so many beside the outbox's own, and returns the names of all.
func (o *outbox) moreWorkers(ctx context.Context, count int) (names []string, stop func(), err error) {
	var more []*outbox
	stop = func() {
		for _, one := range more {
			one.stopWorker()
		}
	}
	names = []string{o.worker}
	for n := range count {
		one := *o
		one.worker, one.supervisor = fmt.Sprintf("%s-%d", o.worker, n+2), nil
		more, names = append(more, &one), append(names, one.worker)
		if err := one.startWorker(ctx); err != nil {
			return nil, stop, err
		}
	}
	return names, stop, nil
}

func reportScaling(r *report, all []*scaling) {
	for _, s := range all {
		r.row(fmt.Sprintf("backlog of %d endpoints, %d worker(s)", backlogEndpoints, s.workers), &s.fast)
	}
	for _, s := range all {
		r.row(fmt.Sprintf("backlog of an endpoint that takes %s, %d worker(s)", slowAnswer, s.workers), &s.slow)
	}
	first, last := all[0], all[len(all)-1]
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: rate of %d workers / 1, receiver takes %s", last.workers, slowAnswer), unit: "×", target: 3, least: true,
		measured: median(last.slowRates) / median(first.slowRates),
	})
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: CPU of a delivery, %d workers / 1", last.workers), unit: "×", target: 1.3,
		measured: median(last.costs) / median(first.costs),
	})
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: rate of %d workers / 1 on this machine's cores", last.workers), unit: "×", target: 0.8, least: true,
		measured: median(last.fastRates) / median(first.fastRates),
	})
}
