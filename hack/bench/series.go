package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// How often the things that are compared take turns: odd, for the median.
const (
	gateTurns = 5
	// scatteredTurns are for figures that scatter: the gate's ratio was between 1.07× and 1.57× in the turns of one run. A
	// greedy key's effect on p99 was 0.70× by five turns of one run, and 1.32× by five turns of another.
	scatteredTurns = 15
	// keysTurns are more, and shorter: of the whole machine's speed, which changes within seconds, each sees the same.
	keysTurns = 15
)

// turnTime returns the length of a turn: all turns together take two and a half times the duration.
func turnTime(duration time.Duration, turns int) time.Duration {
	return duration * 5 / 2 / time.Duration(turns)
}

// series is what was measured of one thing, turn by turn.
type series []sample

// median is of a figure over the turns.
func (s series) median(figure func(*sample) float64) float64 {
	all := make([]float64, len(s))
	for i := range s {
		all[i] = figure(&s[i])
	}
	return median(all)
}

// micros is the median of the CPU-µs that an operation cost a process.
func (s series) micros(process string) float64 {
	return s.median(func(one *sample) float64 { return one.micros(process) })
}

// ratio returns the median of the turns' ratios. Both sides of a turn were measured one after the other, so the machine was
// about as fast for both.
func ratio(over, under series, figure func(*sample) float64) float64 {
	return quotient(over, figure, under, figure)
}

// quotient is ratio with another figure below the line.
func quotient(over series, upper func(*sample) float64, under series, lower func(*sample) float64) float64 {
	all := make([]float64, len(over))
	for i := range all {
		all[i] = upper(&over[i]) / lower(&under[i])
	}
	return median(all)
}

// percentileOf is the figure of a percentile, in ms.
func percentileOf(share float64) func(*sample) float64 {
	return func(s *sample) float64 { return s.percentile(share).Seconds() * 1000 }
}

// medians adds a row with the median turn's figures.
func (r *report) medians(name string, s series) {
	var costs []string
	for _, p := range s[0].cpu {
		costs = append(costs, fmt.Sprintf("%s %.1f", p.process, s.micros(p.process)))
	}
	brief := func(ms float64) string { return brief(time.Duration(ms * float64(time.Millisecond))) }
	r.rows = append(r.rows, []string{
		name, fmt.Sprintf("%.0f", s.median((*sample).rate)),
		brief(s.median(percentileOf(0.5))), brief(s.median(percentileOf(0.99))), strings.Join(costs, " + "),
	})
}

// contender is one of the things that take turns.
type contender struct {
	run   func(context.Context) (sample, error)
	turns series
}

// takeTurns measures each contender so many times. The first of a turn and the direction change,
// so that none always follows the same other.
func takeTurns(ctx context.Context, turns int, contenders ...*contender) error {
	for turn := range turns {
		for i := range contenders {
			next := turn + i
			if turn%2 != 0 {
				next = turn - i + len(contenders)
			}
			c := contenders[next%len(contenders)]
			measured, err := c.run(ctx)
			if err != nil {
				return err
			}
			c.turns = append(c.turns, measured)
		}
	}
	return nil
}
