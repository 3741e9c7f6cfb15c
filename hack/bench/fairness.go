package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// fairRate is how many requests/s those ask in all who keep to their limits: a fraction of what the pod can do, so
	// that what they wait for is what is done to them.
	fairRate = 4000
	// excess is how many times its limit a key sends, over connections of its own.
	excess       = 50
	greedClients = 8
	// defaultRate is what the default tier allows a second: 120 a minute.
	defaultRate = 2
	// idleTime is the least for which Redis' calls are counted: few are expected.
	idleTime = 5 * time.Second
)

// greed is a key that sends more than it may.
type greed struct {
	load load
	// calls is Redis' script calls a second while only it sends, minus those of an idle pod.
	calls float64
	sent  atomic.Int64
	// limited counts the answers 429.
	limited atomic.Int64

	beside contender
}

// measureFairness asks with many keys within their limits, alone and beside a key that exceeds its own, in turns; then
// it looks at what denials cost.
func measureFairness(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	others, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	others.rate = fairRate
	g, err := s.makeGreedy(ctx)
	if err != nil {
		return err
	}
	turn := turnTime(duration, gateTurns)
	quiet := &contender{run: func(ctx context.Context) (sample, error) {
		return s.during(ctx, others, turn, processAPI, processRedis, processPostgres)
	}}
	g.beside.run = func(ctx context.Context) (sample, error) { return s.besideGreed(ctx, others, g, turn) }
	if err := takeTurns(ctx, scatteredTurns, quiet, &g.beside); err != nil {
		return err
	}
	idle, err := s.countScripts(ctx, max(duration, idleTime), nil)
	if err != nil {
		return err
	}
	with, err := s.countScripts(ctx, max(duration, idleTime), g)
	if err != nil {
		return err
	}
	g.calls = with - idle
	reportFairness(r, quiet.turns, g, idle)
	return s.measureDenials(ctx, g, idle, duration, r)
}

func reportFairness(r *report, quiet series, g *greed, idle float64) {
	r.medians(fmt.Sprintf("%d keys within their limits, %d/s in all", keyCount, fairRate), quiet)
	r.medians(fmt.Sprintf("  beside a key at %d× its limit", excess), g.beside.turns)
	r.judge(verdict{
		what: fmt.Sprintf("fairness: a key at %d× its limit, p99 of others beside it / without", excess), unit: "×", bar: 1.5, goal: 1.2,
		measured: ratio(g.beside.turns, quiet, percentileOf(0.99)),
	})
	r.judge(verdict{what: fmt.Sprintf("fairness: a key at %d× its limit, Redis' script calls/s for it alone", excess), unit: "", bar: 3, measured: g.calls})
	r.notef("The key at %d× its limit sent %d requests, of which %d were denied; an idle pod makes %.1f script calls/s.",
		excess, g.sent.Load(), g.limited.Load(), idle)
}

// makeGreedy makes the key that exceeds its limit, and uses up the tokens that it has at first.
func (s *stack) makeGreedy(ctx context.Context) (*greed, error) {
	key, err := s.program(s.databaseURL).createKey(ctx, "default")
	if err != nil {
		return nil, err
	}
	request := getRequest(s.api, overviewPath, key)
	g := &greed{}
	g.load = load{
		addresses: []string{s.api}, clients: greedClients, refusal: http.StatusTooManyRequests, refused: &g.limited,
		request: func(int, int) []byte { return request },
	}
	if err := g.drain(ctx); err != nil {
		return nil, err
	}
	g.load.rate = excess * defaultRate
	return g, nil
}

// drain uses up what the key may send at once: while it was silent it gained some.
func (g *greed) drain(ctx context.Context) error {
	const drainTime = time.Second
	all := g.load
	var limited atomic.Int64
	all.rate, all.refused = 0, &limited
	if _, _, err := all.drive(ctx, drainTime); err != nil {
		return err
	}
	if limited.Load() == 0 {
		return fmt.Errorf("a key of the default tier was not denied within %s", drainTime)
	}
	return nil
}

// send lets the key send for a while.
func (g *greed) send(ctx context.Context, duration time.Duration) error {
	sent, _, err := g.load.drive(ctx, duration)
	g.sent.Add(int64(sent))
	return err
}

// besideGreed measures others while the key sends.
func (s *stack) besideGreed(ctx context.Context, others load, g *greed, duration time.Duration) (measured sample, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.send(ctx, duration) })
	group.Go(func() (err error) {
		measured, err = s.during(ctx, others, duration, processAPI, processRedis, processPostgres)
		return err
	})
	return measured, group.Wait()
}

// countScripts is how many script calls a second Redis gets while only that key sends, or nobody.
func (s *stack) countScripts(ctx context.Context, duration time.Duration, g *greed) (float64, error) {
	if g != nil {
		if err := g.drain(ctx); err != nil {
			return 0, err
		}
	}
	before, err := s.countCalls(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if g != nil {
		err = g.send(ctx, duration)
	} else if !wait(ctx, time.NewTimer(duration), duration) {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	elapsed := time.Since(began)
	after, err := s.countCalls(ctx)
	return float64(after.scripts()-before.scripts()) / elapsed.Seconds(), err
}

// measureDenials asks with a key that is used up, as fast as it gets answers.
func (s *stack) measureDenials(ctx context.Context, g *greed, idle float64, duration time.Duration, r *report) error {
	storm := g.load
	storm.rate, storm.clients = 0, connections
	if err := g.drain(ctx); err != nil {
		return err
	}
	before, err := s.countCalls(ctx)
	if err != nil {
		return err
	}
	g.limited.Store(0)
	measured, err := s.during(ctx, storm, duration, processAPI, processRedis, processPostgres)
	if err != nil {
		return err
	}
	after, err := s.countCalls(ctx)
	if err != nil {
		return err
	}
	denied := float64(g.limited.Load())
	caused := float64(after.scripts()-before.scripts()) - idle*measured.elapsed.Seconds()
	r.row("429 to a key that is used up", &measured)
	r.judge(verdict{what: "fairness: Redis' script calls per 1,000 denied requests", bar: 1, measured: max(0, caused) / denied * 1000})
	return nil
}
