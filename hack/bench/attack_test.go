package main

import (
	"testing"

	"examprep.dev/server/keys"
)

func TestGuessesAreAsWellFormedAsTheyShallBe(t *testing.T) {
	g := newGuesses(1)
	seen := map[string]bool{}
	for n := range 100 {
		wellFormed := n%2 == 0
		key := g.next(wellFormed)
		if _, ok := keys.Parse(key); ok != wellFormed {
			t.Errorf("%s: well-formed is %v, want %v", key, ok, wellFormed)
		}
		if seen[string(key)] {
			t.Errorf("%s comes twice", key)
		}
		seen[string(key)] = true
	}
}
