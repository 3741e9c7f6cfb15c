//go:build e2e

package e2e

import (
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

// killsLoseNothing kills the API pod, the worker and the operator in turn while the clients are at work. A client that
// got no answer follows the specification: it does not send a submission again.
func killsLoseNothing(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	crowd := s.letLoose(t, papers, func() {
		turn := time.NewTicker(*duration / 4)
		defer turn.Stop()
		for _, process := range []string{"api", "worker", "operator"} {
			<-turn.C
			s.kill(t, process)
		}
	})
	t.Logf("%d clients for %s, api, worker and operator killed in turn:\n%s", *clients, *duration, s.api.Meter)
	if failed := s.api.Meter.Count(func(status int) bool { return status >= 500 && status != 503 }); failed > 0 {
		t.Errorf("%d requests answered with a 5xx other than 503", failed)
	}
	crowd.CheckKept(t, s.api, s.receiver)
}
