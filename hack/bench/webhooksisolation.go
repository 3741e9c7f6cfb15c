package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	// receivers is how many endpoints there are; those of misfits are bad.
	receivers = 20
	// isolationTurns is how often the healthy ones are measured alone and beside the bad ones. It is odd, for the median.
	isolationTurns = 3
	// mostWorkerMemory, in MB, is what a worker may take whatever its receivers do.
	mostWorkerMemory = 256
)

// misfits are a tenth that hangs, a tenth that refuses, one that answers a byte a second, and one that sends 1 GB.
func misfits() []string {
	return []string{behaviourHanging, behaviourHanging, behaviourClosed, behaviourBroken, behaviourDrip, behaviourFlood}
}

// isolation is what was measured of healthy receivers, alone and beside bad ones.
type isolation struct {
	outbox  *outbox
	healthy []uuid.UUID

	quiet, beside sample
	// tails are the p99 beside the bad ones / alone, medians the p50 alone in ms; of each turn.
	tails, medians []float64
	peak           float64 // of the worker's resident memory, in MB
}

// measureIsolation measures from commit to receipt: of healthy receivers alone, and beside bad ones, in turns.
func (o *outbox) measureIsolation(ctx context.Context, duration time.Duration, r *report) error {
	i := &isolation{outbox: o}
	for n := range receivers - len(misfits()) {
		owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-healthy-%d", n), o.receiver.endpoint(behaviourGood, n))
		if err != nil {
			return err
		}
		i.healthy = append(i.healthy, owner)
	}
	if _, err := o.trickle(ctx, audience{healthy: i.healthy}, time.Second); err != nil { // connections are made, secrets read
		return err
	}
	o.stack.say("%d events/s, with and without bad receivers", eventRate)
	for n := range isolationTurns {
		if err := i.turn(ctx, n, duration); err != nil {
			return err
		}
	}
	i.report(r)
	return nil
}

// turn measures alone, then beside new bad endpoints for longer than a try may take.
func (i *isolation) turn(ctx context.Context, number int, duration time.Duration) error {
	quiet, err := i.outbox.trickle(ctx, audience{healthy: i.healthy}, 2*duration)
	if err != nil {
		return err
	}
	workers, err := i.outbox.stack.watched(i.outbox.worker)
	if err != nil {
		return err
	}
	if err := resetPeak(workers[0].pid); err != nil {
		return err
	}
	bad, leave, err := i.outbox.subscribeMisfits(ctx, number)
	if err != nil {
		return err
	}
	beside, err := i.outbox.trickle(ctx, audience{healthy: i.healthy, bad: bad}, 3*duration)
	if err := errors.Join(err, leave()); err != nil {
		return err
	}
	memory, err := readMemory(workers[0].pid)
	if err != nil {
		return err
	}
	i.quiet.add(quiet)
	i.beside.add(beside)
	i.tails = append(i.tails, beside.percentile(0.99).Seconds()/quiet.percentile(0.99).Seconds())
	i.medians = append(i.medians, quiet.percentile(0.5).Seconds()*1000)
	i.peak = max(i.peak, memory.peak)
	return i.outbox.awaitIdle(ctx)
}

func (i *isolation) report(r *report) {
	r.row(fmt.Sprintf("%d events/s, from commit to receipt", eventRate), &i.quiet)
	r.row(fmt.Sprintf("  the same, beside %d bad receivers of %d", len(misfits()), receivers), &i.beside)
	r.judge(verdict{what: "webhooks: p50 from commit to receipt, median turn", unit: " ms", bar: 20, measured: median(i.medians)})
	r.judge(verdict{what: "webhooks: healthy p99 beside bad receivers / alone, median turn", unit: "×", bar: 1.5, goal: 1.2, measured: median(i.tails)})
	r.judge(verdict{what: "webhooks: peak memory of the worker beside bad receivers", unit: " MB", bar: mostWorkerMemory, measured: i.peak})
	r.notef("Bad receivers: 2 hang, 1 refuses connections, 1 answers 500, 1 answers a byte a second, 1 sends 1 GB; each gets as many events/s as each healthy one, from its registration on.")
}

// subscribeMisfits registers bad endpoints; leave deletes them and lets their tries go.
func (o *outbox) subscribeMisfits(ctx context.Context, turn int) (owners []uuid.UUID, leave func() error, err error) {
	var urls []string
	leave = func() error {
		var errs []error
		for n, url := range urls {
			errs = append(errs, o.endpoints.delete(ctx, owners[n], url))
		}
		return errors.Join(append(errs, o.receiver.tell(ctx, pathRelease))...)
	}
	for n, behaviour := range misfits() {
		url := o.receiver.endpoint(behaviour, receivers-1-n)
		owner, _, err := o.subscribe(ctx, fmt.Sprintf("bench-%s-%d-%d", behaviour, turn, n), url)
		if err != nil {
			return nil, leave, errors.Join(err, leave())
		}
		owners, urls = append(owners, owner), append(urls, url)
	}
	return owners, leave, nil
}

// awaitIdle waits until the worker has no try under way.
func (o *outbox) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return poll(ctx, "no delivery attempt is in flight", func() (bool, error) {
		found, err := o.stack.metricsOf(ctx, o.worker)
		return found.sum("examprep_webhook_in_flight") == 0, err
	})
}
