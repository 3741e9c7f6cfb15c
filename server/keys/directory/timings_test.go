package directory

import (
	"testing"
	"time"
)

// TestProductionTimingsAreThoseOfTheDesign: docs and alerts name these numbers. A change must wait longer than a lease lasts.
func TestProductionTimingsAreThoseOfTheDesign(t *testing.T) {
	want := Timings{
		Lease: 2 * time.Second, Wait: 2500 * time.Millisecond, Limit: 5 * time.Second, Call: 2 * time.Second,
		Renew: 500 * time.Millisecond, Retry: 250 * time.Millisecond,
	}
	if got := Production(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, timings := range map[string]Timings{"production": Production(), "slower": Production().Slower(10)} {
		if timings.Wait <= timings.Lease || timings.Limit <= timings.Wait || timings.Renew >= timings.Lease {
			t.Errorf("%s: %+v: a renewal must come before a lease ends, and a lease before the wait of a change", name, timings)
		}
	}
}
