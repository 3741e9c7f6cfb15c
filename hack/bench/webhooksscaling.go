package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// severalWorkers is how many there are where there are several.
	severalWorkers = 4
	// scalingEvents is the backlog of an endpoint. It outlasts the time in which new workers find it and open windows and
	// connections.
	scalingEvents = 10_000
)

// scaling is what so many workers did.
type scaling struct {
	workers int
	turns   series
}

// measureScaling gives the same backlog to one worker and to several, in turns. With receivers that answer at once all cores
// are needed, so workers that get in each other's way show in their CPU for a delivery. With slow ones a worker's places
// are needed, so the rates add up.
func (o *outbox) measureScaling(ctx context.Context, _ time.Duration, r *report) error {
	one, several, err := o.measureWorkers(ctx, behaviourGood, r)
	if err != nil {
		return err
	}
	perCPU := func(s *sample) float64 { return 1 / s.micros(processWorker) }
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: deliveries per CPU-second of the workers, %d workers / 1", severalWorkers), unit: "×",
		bar: 0.85, goal: 0.95, least: true, measured: ratio(several, one, perCPU),
	})
	one, several, err = o.measureWorkers(ctx, behaviourSlow, r)
	if err != nil {
		return err
	}
	r.judge(verdict{
		what: fmt.Sprintf("webhooks: rate with receivers that take %s, %d workers / 1", slowAnswer, severalWorkers), unit: "×",
		bar: 3.6, least: true, measured: ratio(several, one, (*sample).rate),
	})
	return nil
}

// measureWorkers has backlogs for receivers of one behaviour worked off by one worker and by several, in turns.
func (o *outbox) measureWorkers(ctx context.Context, behaviour string, r *report) (one, several series, err error) {
	owner, err := o.subscribeBacklog(ctx, "bench-scaling-"+behaviour, behaviour, backlogEndpoints)
	if err != nil {
		return nil, nil, err
	}
	o.stack.say("1 and %d workers, %s receivers", severalWorkers, behaviour)
	single, multiple := &scaling{workers: 1}, &scaling{workers: severalWorkers}
	for range o.stack.scalingTurns {
		for _, s := range []*scaling{single, multiple} {
			if err := o.scale(ctx, s, turn{owner: owner, endpoints: backlogEndpoints, events: scalingEvents}); err != nil {
				return nil, nil, err
			}
		}
	}
	r.medians(fmt.Sprintf("backlog of %d endpoints, %s receivers, one worker", backlogEndpoints, behaviour), single.turns)
	r.medians(fmt.Sprintf("  the same, %d workers", severalWorkers), multiple.turns)
	return single.turns, multiple.turns, nil
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

// moreWorkers starts count workers in addition to the outbox's own, and returns the names of all.
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
