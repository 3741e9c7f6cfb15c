package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The sizes of the part bulk at 100 %, the default of -bulk. Locked rows and endpoints are never fewer.
const (
	tierKeys     = 200_000
	disabledRows = 1_000_000
	backlogRows  = 64_000
	endedRows    = 500_000

	lockedRows       = 40
	healthyBacklogs  = 64
	percentOfBulk    = 100
	smallPercent     = 5
	longestBulkDelay = 30 * time.Second
)

// share returns -bulk percent of a number of rows.
func (s *stack) share(rows int) int { return rows * s.bulkPercent / percentOfBulk }

// measureBulk measures how long others wait while many rows change at once or cannot change. Its bars are times, not ratios: they are what
// the product promises. Each scenario has a database, and a worker or pods, of its own.
func measureBulk(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	asked := func(scenario string) bool { return strings.Contains(scenario, os.Getenv("SCENARIO")) }
	if asked("tier") {
		if err := s.measureTierDeletion(ctx, r); err != nil {
			return fmt.Errorf("tier: %w", err)
		}
	}
	receiver, err := s.startReceiver(ctx)
	if err != nil {
		return err
	}
	for _, scenario := range []struct {
		name    string
		measure func(context.Context, *outbox, time.Duration, *report) error
	}{
		{"locked", measureLocked("")},
		{"locked_lock_timeout", measureLocked("lock_timeout")},
		{"locked_statement_timeout", measureLocked("statement_timeout")},
		{"disabled", measureDisabled},
		{"backlog", measureBacklog(0)},
		{"backlog_slow_commits", measureBacklog(slowCommit)},
		{"snapshot", measureSnapshot},
	} {
		if !asked(scenario.name) {
			continue
		}
		s.say("%s", scenario.name)
		o, err := s.openOutbox(ctx, receiver, "bulk_"+scenario.name)
		if err != nil {
			return err
		}
		err = scenario.measure(ctx, o, duration, r)
		o.close(context.WithoutCancel(ctx))
		if err := errors.Join(err, receiver.tell(ctx, pathRelease)); err != nil {
			return fmt.Errorf("%s: %w", scenario.name, err)
		}
	}
	return nil
}

// delays are the waits of others in a scenario.
type delays struct {
	all []time.Duration
	// missing is how many still waited at the end; their waits until then are in all.
	missing int
}

func (d *delays) add(wait time.Duration) { d.all = append(d.all, wait) }

// addMissing adds the wait of one that waits still.
func (d *delays) addMissing(since time.Time) {
	d.add(time.Since(since))
	d.missing++
}

// judgeBulk adds a verdict to the report, and prints it at once: a scenario can take minutes.
func (s *stack) judgeBulk(r *report, v verdict) {
	r.judge(v)
	s.say("%s: %.2f%s, bar %g%s: %s", v.what, v.measured, v.unit, v.bar, v.unit, v.meets(v.bar))
}

// judgeDelays adds the longest wait to the report, and a note with the others.
func (s *stack) judgeDelays(r *report, d *delays, what string, bar time.Duration) error {
	if len(d.all) == 0 {
		return fmt.Errorf("%s: nothing was measured", what)
	}
	sorted := slices.Sorted(slices.Values(d.all))
	longest := sorted[len(sorted)-1]
	s.judgeBulk(r, verdict{what: what, unit: " s", bar: bar.Seconds(), measured: longest.Seconds()})
	r.notef("%s: %d measured, p50 %s, longest %s; %d were not over at the end.", what, len(sorted), brief(sorted[len(sorted)/2]), brief(longest), d.missing)
	return nil
}

// awaitReceiptsOf waits until the receiver has got events, for longestBulkDelay at most, and returns how long each was on its way
// from its time.
func (o *outbox) awaitReceiptsOf(ctx context.Context, events []committed) (*delays, error) {
	within, cancel := context.WithTimeout(ctx, longestBulkDelay)
	defer cancel()
	receipts := map[string]int64{}
	err := poll(within, "all events have come", func() (bool, error) {
		var err error
		receipts, err = o.receiver.receipts(ctx)
		return !slices.ContainsFunc(events, func(e committed) bool { return receipts[e.id.String()] == 0 }), err
	})
	if err != nil && within.Err() == nil {
		return nil, err
	}
	waits := &delays{}
	for _, event := range events {
		if at, came := receipts[event.id.String()]; came {
			waits.add(time.Unix(0, at).Sub(event.at))
		} else {
			waits.addMissing(event.at)
		}
	}
	return waits, ctx.Err()
}
