package main

import (
	"context"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

func TestARatioIsTheMedianOfTheTurnsRatios(t *testing.T) {
	at := func(rates ...int) (s series) {
		for _, rate := range rates {
			s = append(s, sample{operations: rate, elapsed: time.Second})
		}
		return s
	}
	// A machine that stood still in one turn: sums would say 11/25.
	check.Equal(t, ratio(at(2, 4, 5), at(1, 2, 100), (*sample).rate), 2, "ratio")
	check.Equal(t, at(3, 1, 2).median((*sample).rate), 2, "median")
}

func TestEachContenderHasEachTurnAndNoneIsAlwaysFirst(t *testing.T) {
	var order []int
	contenders := make([]*contender, 3)
	for i := range contenders {
		contenders[i] = &contender{run: func(context.Context) (sample, error) {
			order = append(order, i)
			return sample{operations: len(order)}, nil
		}}
	}
	check.NoError(t, takeTurns(t.Context(), gateTurns, contenders...))
	for i, c := range contenders {
		check.Equal(t, len(c.turns), gateTurns, "turns of contender %d", i)
	}
	check.Slices(t, order[:9], []int{0, 1, 2, 1, 0, 2, 2, 0, 1}, "the first three turns")
}
