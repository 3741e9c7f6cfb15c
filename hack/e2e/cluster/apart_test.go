//go:build e2e

package cluster

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

// releasesAreApart installs a sandbox beside production by Helm 3, each with a database and resources of its own, and
// finds that neither lets the other's keys in nor serves the other's content. Then it takes the sandbox away, and
// production has not noticed.
func releasesAreApart(t *testing.T, c *cluster, production *release) {
	sandbox := c.release("sandbox", sandboxNamespace, "sandbox", c.helm3)
	const database = "examprep_sandbox"
	c.psql(t, "postgres", `DROP DATABASE IF EXISTS `+database+` WITH (FORCE)`)
	c.psql(t, "postgres", `CREATE DATABASE `+database)
	sandbox.settle(t, database, 1)
	began := time.Now()
	sandbox.upgrade(t, c.images.product, "crds.install=false", "api.replicas=1", "worker.replicas=1", "operator.replicas=1")
	t.Logf("helm 3 install of the sandbox took %s", seconds(time.Since(began)))
	sandbox.reach(t, sandbox.createKey(t, testAccount, "default"))

	refused(t, sandbox.list(t, sandbox.api.With(production.key)), "the sandbox lets a key of production in")
	refused(t, production.list(t, production.api.With(sandbox.key)), "production lets a key of the sandbox in")

	before := production.served(t, fixture, "/overview")
	sandbox.applyFixture(t, "Fixture of the sandbox")
	eventually(t, time.Minute, "the sandbox to serve its fixture", func() bool {
		return strings.Contains(sandbox.served(t, fixture, "/overview"), "Fixture of the sandbox")
	})
	if after := production.served(t, fixture, "/overview"); after != before || after == "" {
		t.Errorf("production serves %s, before the sandbox %s", after, before)
	}
	sandbox.kubectl(t, "", "delete", "examcontent", fixture, "-n", sandbox.namespace, "--timeout=60s")
	sandbox.must(t, "", sandbox.helm, "uninstall", sandbox.name, "-n", sandbox.namespace, "--wait", "--timeout=2m")
	if err := production.list(t, production.api); err != nil {
		t.Error(err)
	}
}

// refused fails the test unless err is a 401.
func refused(t *testing.T, err error, otherwise string) {
	t.Helper()
	if status, ok := errors.AsType[*crowdtest.StatusError](err); !ok || status.Status != http.StatusUnauthorized {
		t.Errorf("%s: %v", otherwise, err)
	}
}
