//go:build e2e

package cluster

import (
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

// apiScales switches the autoscaler on under load and finds no fewer pods for it, then more API pods under more load, fewer
// after it, and switches it off again; no request failed while they come and go.
func apiScales(t *testing.T, r *release, papers []*crowdtest.Paper) {
	if !r.has(t, "apiservice", "v1beta1.metrics.k8s.io") {
		t.Skip("the cluster has no metrics-server")
	}
	const fewest = 2
	r.losesNothing(t, papers, func(t *testing.T) {
		r.upgrade(t, r.images.product, "api.autoscaling.enabled=true", "api.autoscaling.maxReplicas=4",
			"api.autoscaling.targetCPUUtilizationPercentage=60", "api.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=15",
			"api.autoscaling.behavior.scaleDown.policies[0].type=Percent",
			"api.autoscaling.behavior.scaleDown.policies[0].value=100", "api.autoscaling.behavior.scaleDown.policies[0].periodSeconds=15")
		if asked := *r.deployment(t, "api").Spec.Replicas; asked < fewest {
			t.Errorf("%d API pods after the autoscaler was switched on, %d before", asked, fewest)
		}
	})
	replicas := func() int32 { return r.deployment(t, "api").Status.ReadyReplicas }
	r.losesNothingAt(t, papers, 2**rate, func(t *testing.T) {
		took := eventually(t, 5*time.Minute, "more API pods", func() bool { return replicas() > fewest })
		t.Logf("%d API pods after %s of %.0f requests/s", replicas(), seconds(took), 2**rate)
	})
	r.losesNothingAt(t, papers, *rate/20, func(t *testing.T) {
		took := eventually(t, 5*time.Minute, "fewer API pods", func() bool { return r.whole(t, "api") && replicas() == fewest })
		t.Logf("%d API pods %s after the load was gone", replicas(), seconds(took))
	})
	// With little load: Helm 4 refuses to take a count from an autoscaler that has just set another.
	r.losesNothingAt(t, papers, *rate/20, func(t *testing.T) { r.upgrade(t, r.images.product) })
}
