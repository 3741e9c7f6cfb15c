package main

import "testing"

func TestGuessesAreAsWellFormedAsTheyShallBe(t *testing.T) {
	g := newGuesses(1)
	seen := map[string]bool{}
	for n := range 100 {
		want := n%2 == 0
		key := g.next(want)
		if ok := wellFormed(string(key)); ok != want {
			t.Errorf("%s: well-formed is %v, want %v", key, ok, want)
		}
		if seen[string(key)] {
			t.Errorf("%s comes twice", key)
		}
		seen[string(key)] = true
	}
}
