package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// oneKeyTurns is how often one key and many keys take turns. It is odd, for the median.
	oneKeyTurns = 3
	// manyPods is how many pods there are where there are several.
	manyPods = 4
	// otherClients and otherRate are the connections and opens/s of the keys whose p99 is measured at the same time. Each
	// connection has a key of its own.
	otherClients = 8
	otherRate    = 100
	// commitDelay, in µs, makes each commit of PostgreSQL as slow as on a disk of that latency.
	commitDelay = 3000
)

// measureOneKey compares opens and submits of one key with the same load over as many keys as connections: by one pod and by
// several, with fast and with slow commits.
func measureOneKey(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.prepareAPI(ctx); err != nil {
		return err
	}
	addresses, processes := []string{s.api}, []string{processAPI}
	stop := func() {}
	defer func() { stop() }()
	for _, pods := range []int{1, manyPods} {
		if pods > 1 {
			more, stopMore, err := s.startMorePods(ctx, pods)
			if err != nil {
				return err
			}
			stop = stopMore
			for _, name := range slices.Sorted(maps.Keys(more)) {
				addresses, processes = append(addresses, more[name]), append(processes, name)
			}
		}
		for _, delay := range []int{0, commitDelay} {
			c := &oneKeyCase{stack: s, pods: pods, delay: delay, addresses: addresses, processes: processes}
			if err := c.measure(ctx, turnTime(duration, gateTurns)); err != nil {
				return err
			}
			c.report(r)
		}
	}
	return nil
}

// oneKeyCase is a number of pods and a commit delay.
type oneKeyCase struct {
	stack                *stack
	pods, delay          int
	addresses, processes []string

	one, many oneKeySide
}

// oneKeySide is what was measured of a load; others holds the opens of other keys at the same time.
type oneKeySide struct {
	clients                *clients
	opens, submits, others series
}

func (c *oneKeyCase) measure(ctx context.Context, turn time.Duration) (err error) {
	if err := c.stack.setCommitDelay(ctx, c.delay); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stack.setCommitDelay(context.WithoutCancel(ctx), 0)) }()
	keys := c.stack.keys
	c.many.clients = newClients(keys[:connections], c.addresses...)
	c.one.clients = newClients(keys[connections:connections+1], c.addresses...)
	for _, side := range []*oneKeySide{&c.many, &c.one} {
		if err := side.clients.warm(ctx); err != nil {
			return err
		}
	}
	run := func(side *oneKeySide) *contender {
		return &contender{run: func(ctx context.Context) (sample, error) { return sample{}, c.turn(ctx, side, turn) }}
	}
	return takeTurns(ctx, oneKeyTurns, run(&c.many), run(&c.one))
}

// turn opens for a while, then submits for a while. Other keys open all the time.
func (c *oneKeyCase) turn(ctx context.Context, side *oneKeySide, duration time.Duration) error {
	if err := analyse(ctx, c.stack.pool); err != nil {
		return err
	}
	others := newClients(c.stack.keys[2*connections:2*connections+otherClients], c.addresses...).open()
	others.clients, others.rate = otherClients, otherRate
	var beside sample
	for _, phase := range []struct {
		load load
		into *series
	}{{side.clients.open(), &side.opens}, {side.clients.submit(), &side.submits}} {
		group, within := errgroup.WithContext(ctx)
		group.Go(func() error {
			operations, latencies, err := others.drive(within, duration)
			beside.add(sample{operations: operations, elapsed: duration, latencies: latencies})
			return err
		})
		group.Go(func() error {
			measured, err := c.stack.during(within, phase.load, duration, append(slices.Clone(c.processes), processPostgres)...)
			*phase.into = append(*phase.into, measured)
			return err
		})
		if err := group.Wait(); err != nil {
			return err
		}
	}
	side.others = append(side.others, beside)
	side.clients.forget()
	return nil
}

// setCommitDelay makes each commit delay µs slower, even when no other transaction commits.
func (s *stack) setCommitDelay(ctx context.Context, delay int) error {
	siblings := "ALTER SYSTEM RESET commit_siblings"
	if delay > 0 {
		siblings = "ALTER SYSTEM SET commit_siblings = 0"
	}
	for _, statement := range []string{fmt.Sprintf("ALTER SYSTEM SET commit_delay = %d", delay), siblings, "SELECT pg_reload_conf()"} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("set the commit delay: %w", err)
		}
	}
	return nil
}

func (c *oneKeyCase) report(r *report) {
	name := fmt.Sprintf("%d pod(s), commit_delay %d", c.pods, c.delay)
	bar, goal := 0.95, 1.2
	switch {
	case c.pods > 1:
		bar, goal = 0.7, 0.9
	case c.delay > 0:
		bar, goal = 0.75, 0
	}
	for _, phase := range []struct {
		name      string
		one, many series
	}{{"open", c.one.opens, c.many.opens}, {"submit", c.one.submits, c.many.submits}} {
		r.medians(fmt.Sprintf("%s, one key, %s", phase.name, name), phase.one)
		r.medians(fmt.Sprintf("  the same over %d keys", connections), phase.many)
		r.judge(verdict{
			what: fmt.Sprintf("onekey: %s, %s, rate of one key / of %d", phase.name, name, connections), unit: "×", bar: bar, goal: goal,
			least: true, measured: ratio(phase.one, phase.many, (*sample).rate),
		})
	}
	r.medians("opens of other keys during one key's load, "+name, c.one.others)
	r.medians(fmt.Sprintf("  during that of %d keys", connections), c.many.others)
	r.judge(verdict{
		what: fmt.Sprintf("onekey: %s, other keys' p99 during one key's load / during that of %d", name, connections), unit: "×", bar: 1.5,
		measured: ratio(c.one.others, c.many.others, percentileOf(0.99)),
	})
}
