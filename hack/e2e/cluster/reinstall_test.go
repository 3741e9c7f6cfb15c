//go:build e2e

package cluster

import (
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

// uninstallLeavesData uninstalls the release, finds definitions, resources and data where they were, installs it again by
// Helm 3, and finds that keys, content and history go on as if nothing had happened.
func uninstallLeavesData(t *testing.T, r *release, papers []*crowdtest.Paper) {
	crowd := r.losesNothing(t, papers, func(*testing.T) {})
	resources := r.kubectl(t, "", "get", "examcontents,webhookendpoints,ratetiers", "-n", r.namespace, "-o", "name")
	attempts := r.psql(t, "examprep", "SELECT count(*) FROM attempts")

	r.must(t, "", r.helm, "uninstall", r.name, "-n", r.namespace, "--wait", "--timeout=3m")
	eventually(t, 2*time.Minute, "all pods to be gone", func() bool { return len(r.pods(t, r.namespace, r.selector(""))) == 0 })
	if !r.has(t, "crd", crdName) {
		t.Fatal("the definitions went with the release")
	}
	check.Equal(t, r.kubectl(t, "", "get", "examcontents,webhookendpoints,ratetiers", "-n", r.namespace, "-o", "name"), resources, "resources after the uninstall")
	check.Equal(t, r.psql(t, "examprep", "SELECT count(*) FROM attempts"), attempts, "attempts after the uninstall")

	r.helm = r.helm3
	began := time.Now()
	r.upgrade(t, r.images.product)
	r.reach(t, r.key) // its node port is another
	check.NoError(t, r.list(t, r.api))
	t.Logf("helm 3 install on what was there: the first 200 with the old key after %s", seconds(time.Since(began)))
	crowd.CheckHistory(t, r.api)
	r.losesNothing(t, papers, func(*testing.T) {})
}
