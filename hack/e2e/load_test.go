//go:build e2e

package e2e

import (
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

// loadLosesNothing lets all clients open, page and submit at once, and finds every answered submission in history with
// its score, and both of its events at the receiver.
func loadLosesNothing(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	crowd := s.letLoose(t, papers, nil)
	t.Logf("%d clients for %s:\n%s", *clients, *duration, s.api.Meter)
	if failed := s.api.Meter.Count(func(status int) bool { return status == 0 || status >= 500 }); failed > 0 {
		t.Errorf("%d requests without an answer or with a 5xx", failed)
	}
	crowd.CheckKept(t, s.api, s.receiver)
}

func (s *stack) letLoose(t *testing.T, papers []*crowdtest.Paper, meanwhile func()) *crowdtest.Crowd {
	t.Helper()
	s.receiver.Forget(t)
	s.api.Meter = crowdtest.NewMeter()
	over := time.NewTimer(*duration)
	defer over.Stop()
	crowd := crowdtest.Start(t.Context(), s.api, crowdtest.Config{Clients: *clients, Seed: *seed, Papers: papers})
	if meanwhile != nil {
		meanwhile()
	}
	<-over.C
	crowd.Stop(t)
	return crowd
}
