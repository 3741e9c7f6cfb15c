package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// scalingTurns is how often one worker and several take turns. It is odd, for the median.
	scalingTurns = 5
	// severalWorkers is how many there are where there are several.
	severalWorkers = 4
	// leastEvents is the smallest backlog of an endpoint: windows of several workers take a while to open.
	leastEvents = 2500
)

// scaling is what so many workers did.
type scaling struct {
	workers int
	turns   series
}

// measureScaling gives the same backlog to one worker and to several, in turns. All cores are needed for it, so workers that
// get in each other's way show in the workers' CPU for a delivery.
func (o *outbox) measureScaling(ctx context.Context, duration time.Duration, r *report) error {
	owner, err := o.subscribeBacklog(ctx, "bench-scaling", behaviourGood, backlogEndpoints)
	if err != nil {
		return err
	}
	one, several := &scaling{workers: 1}, &scaling{workers: severalWorkers}
	o.stack.say("1 and %d workers", severalWorkers)
	events := max(leastEvents, int(duration.Seconds()*backlogRate/backlogEndpoints/2))
	for range scalingTurns {
		for _, s := range []*scaling{one, several} {
			if err := o.scale(ctx, s, turn{owner: owner, endpoints: backlogEndpoints, events: events}); err != nil {
				return err
			}
		}
	}
	ofWorkers := func(s *sample) float64 { return 1 / s.micros(processWorker) }
	r.medians(fmt.Sprintf("backlog of %d endpoints, one worker", backlogEndpoints), one.turns)
	r.medians(fmt.Sprintf("  the same, %d workers", severalWorkers), several.turns)
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: deliveries per CPU-second of the workers, %d workers / 1", severalWorkers), unit: "×",
		bar: 0.85, goal: 0.95, least: true, measured: ratio(several.turns, one.turns, ofWorkers),
	})
	return nil
}

// scale has the backlog worked off by so many workers.
func (o *outbox) scale(ctx context.Context, s *scaling, backlog turn) error {
	names, stop, err := o.moreWorkers(ctx, s.workers-1)
	defer stop()
	if err != nil {
		return err
	}
	backlog.workers = names
	if _, err := o.work(ctx, backlog); err != nil { // connections are made, windows open
		return err
	}
	worked, err := o.work(ctx, backlog)
	s.turns = append(s.turns, worked)
	return err
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
