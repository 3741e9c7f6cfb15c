//go:build e2e

package cluster

import (
	"slices"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

func upgradeLosesNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	before := r.running(t)
	r.losesNothing(t, papers, func(t *testing.T) {
		began := time.Now()
		r.upgrade(t, r.images.next, "logLevel=debug", "api.replicas=3")
		t.Logf("helm upgrade took %s", seconds(time.Since(began)))
	})
	after := r.running(t)
	if len(after) != 1 || slices.Equal(after, before) {
		t.Errorf("the pods run %q, before the upgrade %q", after, before)
	}
	check.Equal(t, len(r.pods(t, r.namespace, r.selector("api"))), 3, "API pods")
}

// rollbackLosesNothing goes back to the build and the configuration before.
func rollbackLosesNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	r.losesNothing(t, papers, func(t *testing.T) {
		began := time.Now()
		r.must(t, "", r.helm, "rollback", r.name, "-n", r.namespace, "--wait", "--timeout=5m")
		for _, component := range components {
			r.awaitWhole(t, component)
		}
		t.Logf("helm rollback took %s", seconds(time.Since(began)))
	})
	if after := r.running(t); !slices.Equal(after, []string{r.images.product}) {
		t.Errorf("the pods run %q after the rollback, want %s", after, r.images.product)
	}
}

func (r *release) running(t *testing.T) []string {
	t.Helper()
	var images []string
	for _, component := range components {
		r.awaitWhole(t, component)
		for _, pod := range r.pods(t, r.namespace, r.selector(component)) {
			if image := pod.Spec.Containers[0].Image; !slices.Contains(images, image) {
				images = append(images, image)
			}
		}
	}
	return images
}

func restartsLoseNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	for _, component := range components {
		t.Run(component, func(t *testing.T) {
			name := r.deployment(t, component).Name
			r.losesNothing(t, papers, func(t *testing.T) {
				r.kubectl(t, "", "rollout", "restart", "deployment/"+name, "-n", r.namespace)
				r.kubectl(t, "", "rollout", "status", "deployment/"+name, "-n", r.namespace, "--timeout=5m")
				r.awaitWhole(t, component)
			})
		})
	}
}
