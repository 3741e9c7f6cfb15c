//go:build e2e

package cluster

import (
	"testing"

	"examprep.dev/hack/e2e/crowdtest"
)

// underLoad does something to a release while its clients are at work from outside the pods, so many requests a second
// of them all. It returns the stopped crowd and the meter of its requests.
func (r *release) underLoad(
	t *testing.T, papers []*crowdtest.Paper, perSecond float64, what func(*testing.T),
) (*crowdtest.Crowd, *crowdtest.Meter) {
	t.Helper()
	r.stores.receiver.Forget(t)
	api := r.api.Paced(perSecond)
	crowd := crowdtest.Start(t.Context(), api, crowdtest.Config{Clients: *clients, Seed: *seed, Papers: papers})
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			crowd.Stop(t)
		}
	}
	defer stop() // also when what has ended the test
	pass(t, *duration)
	what(t)
	pass(t, *duration)
	stop()
	t.Logf("%d submissions\n%s", crowd.Submissions(), api.Meter)
	return crowd, api.Meter
}

// losesNothing does something to a release under the set load and finds every request answered 200, every submission in history
// with its score, and both of its events at the receiver.
func (r *release) losesNothing(t *testing.T, papers []*crowdtest.Paper, what func(*testing.T)) *crowdtest.Crowd {
	t.Helper()
	return r.losesNothingAt(t, papers, *rate, what)
}

func (r *release) losesNothingAt(t *testing.T, papers []*crowdtest.Paper, perSecond float64, what func(*testing.T)) *crowdtest.Crowd {
	t.Helper()
	crowd, meter := r.underLoad(t, papers, perSecond, what)
	if failed := meter.Failed(); failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
	crowd.CheckKept(t, r.api, r.stores.receiver)
	return crowd
}
