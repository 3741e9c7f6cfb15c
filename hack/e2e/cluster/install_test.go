//go:build e2e

package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// testAccount owns the keys that the proofs make.
const testAccount = "e2e"

// installAnswers installs the chart into an empty namespace on empty stores and measures how long it takes until
// everything is Ready, and until a request with a new key is answered.
func installAnswers(t *testing.T, r *release) {
	r.settle(t, "examprep", 0)
	began := time.Now()
	r.upgrade(t, r.images.product)
	ready := time.Since(began)
	for _, component := range components {
		r.awaitWhole(t, component)
	}
	key := r.createKey(t, testAccount, "default")
	r.reach(t, key)
	if err := r.list(t, r.api); err != nil {
		t.Fatal(err)
	}
	t.Logf("helm install: Ready after %s, the first 200 with a new key after %s", seconds(ready), seconds(time.Since(began)))
	r.apply(t, "test-key.yaml", map[string]string{"NAMESPACE": r.namespace, "API_KEY": key})
	if err := r.list(t, r.api.With("service_"+strings.Repeat("0", 48))); err == nil {
		t.Error("a key that nobody issued was let in")
	}
}

// helmTestPasses runs the chart's own test, which opens and submits a paper.
func helmTestPasses(t *testing.T, r *release) {
	r.applyFixture(t, "Fixture of the end-to-end proofs")
	eventually(t, time.Minute, "the fixture to be served", func() bool { return r.served(t, fixture, "/overview") != "" })
	t.Log(r.must(t, "", r.helm, "test", r.name, "-n", r.namespace, "--logs", "--timeout=3m"))
}

func (r *release) served(t *testing.T, exam, rest string) string {
	t.Helper()
	var body []byte
	if err := r.api.Call(t.Context(), "GET "+rest, http.MethodGet, "/exam-prep/"+exam+rest, nil, &body); err != nil {
		return ""
	}
	return string(body)
}
