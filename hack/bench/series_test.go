package main

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestARatioIsTheMedianOfTheTurnsRatios(t *testing.T) {
	at := func(rates ...int) (s series) {
		for _, rate := range rates {
			s = append(s, sample{operations: rate, elapsed: time.Second})
		}
		return s
	}
	// A machine that stood still in one turn: sums would say 11/25.
	if got := ratio(at(2, 4, 5), at(1, 2, 100), (*sample).rate); got != 2 {
		t.Errorf("got %g, want 2", got)
	}
	if got := at(3, 1, 2).median((*sample).rate); got != 2 {
		t.Errorf("got median %g, want 2", got)
	}
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
	if err := takeTurns(t.Context(), gateTurns, contenders...); err != nil {
		t.Fatal(err)
	}
	for i, c := range contenders {
		if len(c.turns) != gateTurns {
			t.Errorf("contender %d had %d turns, want %d", i, len(c.turns), gateTurns)
		}
	}
	if want := []int{0, 1, 2, 1, 0, 2, 2, 0, 1}; !slices.Equal(order[:9], want) {
		t.Errorf("the first three turns went %v, want %v", order[:9], want)
	}
}
