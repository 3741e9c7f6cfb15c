package controllers

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// recordHealth writes what the operator says into the files that the health checks in config are tested with
// (hack/healthchecks): go test ./controllers -run HealthChecks -args -record-health.
var recordHealth = flag.Bool("record-health", false, "write config/argocd's testdata anew")

const healthData = "../config/argocd/resource_customizations/examprep.dev"

// healthCase is a resource as the operator leaves it. It is made by an operator that runs, in a sandbox unless of says
// otherwise, and recorded under the kind and name.
type healthCase struct {
	name string
	// production makes the installation one of production.
	production bool
	// restricted limits the accounts of webhook endpoints, and the exam keys that can be adopted.
	restricted bool
	// signed makes the operator trust a signer without signatures.
	signed bool
	reach  func(in *installation) client.Object
}

type healthRecord struct {
	t    *testing.T
	seen []string
}

func (r *healthRecord) check(in *installation, name string, object client.Object) {
	r.t.Helper()
	gvk, err := in.kube.GroupVersionKindFor(object)
	check.NoError(r.t, err)
	file := filepath.Join(healthData, gvk.Kind, "testdata", name+".yaml")
	r.seen = append(r.seen, file)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	check.NoError(r.t, in.kube.Get(r.t.Context(), client.ObjectKeyFromObject(object), live))
	got := timeless(r.t, live)
	if *recordHealth {
		testkit.WriteFile(r.t, file, []byte(got))
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		r.t.Errorf("%s %s is not on record: run the test with -args -record-health: %v", gvk.Kind, name, err)
		return
	}
	if got != string(want) {
		r.t.Errorf("%s is not what the operator says (record it with -args -record-health and look what the health checks make of it):\n%s", file, got)
	}
}

// timeless is a resource without what differs from run to run, and without what no health check reads.
func timeless(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	namespace := object.GetNamespace()
	for _, field := range []string{"managedFields", "uid", "resourceVersion"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status", "sourceDigest")
	for _, field := range []string{"papers", "sections", "scoring", "studyPath"} {
		unstructured.RemoveNestedField(object.Object, "spec", field)
	}
	text, err := yaml.Marshal(object.Object)
	check.NoError(t, err)
	out := regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`).ReplaceAllString(string(text), "2026-01-31T12:00:00Z")
	out = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(out, "01900000-0000-7000-8000-000000000000")
	return strings.ReplaceAll(out, namespace, "exams")
}

// TestHealthChecksAreTestedWithTheOperatorsStatuses brings resources into a state for every reason of a condition, and
// compares them with the files that test the shipped health checks.
func TestHealthChecksAreTestedWithTheOperatorsStatuses(t *testing.T) {
	t.Parallel()
	record := &healthRecord{t: t}
	for _, c := range slices.Concat(examHealth(), endpointHealth(), otherHealth()) {
		environment := postgres.Sandbox
		if c.production {
			environment = postgres.Production
		}
		in := install(t, environment, 1)
		in.deps.RestrictWebhookAccounts, in.deps.RestrictAdoption = c.restricted, c.restricted
		if c.signed {
			in.trustSomebody()
		}
		in.operate()
		record.check(in, c.name, c.reach(in))
		in.stop()
		if in.restore != nil {
			in.restore()
		}
	}
	onFile, err := filepath.Glob(filepath.Join(healthData, "*", "testdata", "*.yaml"))
	check.NoError(t, err)
	for _, file := range onFile {
		if !slices.Contains(record.seen, file) {
			t.Errorf("%s is on record but no resource has this status", file)
		}
	}
	record.everyReason()
}

func (r *healthRecord) everyReason() {
	r.t.Helper()
	source := testkit.ReadFile(r.t, "../api/v1alpha1/groupversion.go")
	var all strings.Builder
	for _, file := range r.seen {
		text := testkit.ReadFile(r.t, file)
		all.Write(text)
	}
	reasons := regexp.MustCompile(`\tReason\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 20 {
		r.t.Fatalf("found %d reasons", len(reasons))
	}
	for _, reason := range reasons {
		if reason[1] != v1alpha1.ReasonSecretRotated && !strings.Contains(all.String(), "reason: "+reason[1]+"\n") {
			r.t.Errorf("no recorded resource has the reason %s", reason[1])
		}
	}
}

func exam(change func(*v1alpha1.ExamContent), condition, status, reason string) func(*installation) client.Object {
	return func(in *installation) client.Object {
		content := sampleContent("sample", "xx-sample")
		if change != nil {
			change(content)
		}
		in.create(content)
		in.until(content, condition, metav1.ConditionStatus(status), reason)
		return content
	}
}

func examHealth() []healthCase { return slices.Concat(declaredHealth(), pastHealth(), unseenHealth()) }

func declaredHealth() []healthCase {
	chunked := func(digest string) func(*v1alpha1.ExamContent) {
		return func(c *v1alpha1.ExamContent) {
			c.Spec.Papers = []v1alpha1.Paper{chunkedPaper("xx-sample-2024", "questions", digest)}
		}
	}
	broken := func(in *installation) { in.create(chunkMap("questions", "{")) }
	return []healthCase{
		{name: "published", reach: exam(nil, "Ready", "True", "Ready")},
		{name: "waiting-for-a-chunk", reach: exam(chunked(""), "Ready", "False", "RefNotFound")},
		{name: "broken-chunk", reach: func(in *installation) client.Object {
			broken(in)
			return exam(chunked(""), "Stalled", "True", "RefInvalid")(in)
		}},
		{name: "waiting-for-a-digest", reach: func(in *installation) client.Object {
			broken(in)
			return exam(chunked("sha256:"+strings.Repeat("0", 64)), "Ready", "False", "RefInvalid")(in)
		}},
		{name: "invalid", reach: exam(func(c *v1alpha1.ExamContent) { c.Spec.CountryCode = "XX" }, "Stalled", "True", "Invalid")},
		{name: "unsealed", production: true, reach: exam(nil, "Stalled", "True", "SealMismatch")},
		{name: "unsigned", production: true, signed: true, reach: func(in *installation) client.Object {
			content := sampleContent("sample", "xx-sample")
			seal(in.t, content)
			in.create(content)
			in.until(content, "Stalled", "True", "SealUntrusted")
			return content
		}},
		{name: "pin-of-nothing", reach: exam(func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(7)) }, "Ready", "False", "RevisionNotFound")},
		{name: "suspended", reach: exam(func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true }, "Ready", "False", "Suspended")},
	}
}

// pastHealth depends on what was published before, by this resource or another.
func pastHealth() []healthCase {
	return []healthCase{
		{name: "pinned", reach: func(in *installation) client.Object {
			content := exam(nil, "Ready", "True", "Ready")(in).(*v1alpha1.ExamContent) //nolint:errcheck // made by exam
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
			in.until(content, "Published", "True", "Pinned")
			return content
		}},
		{name: "repaired", reach: func(in *installation) client.Object {
			content := exam(nil, "Ready", "True", "Ready")(in).(*v1alpha1.ExamContent) //nolint:errcheck // made by exam
			in.tamper(wrongAnswer)
			in.reconcileNow(content, "after the edit")
			in.until(content, "Repaired", "True", "DriftRepaired")
			return content
		}},
		{name: "pinned-to-what-was-changed", reach: func(in *installation) client.Object {
			content := exam(nil, "Ready", "True", "Ready")(in).(*v1alpha1.ExamContent) //nolint:errcheck // made by exam
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Papers[0].Questions[0].Prompt = "Another?" })
			in.ready(content)
			in.tamper(wrongAnswer)
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
			in.until(content, "Published", "False", "Drifted")
			return content
		}},
		{name: "of-a-key-that-is-taken", reach: func(in *installation) client.Object {
			exam(nil, "Ready", "True", "Ready")(in)
			return exam(func(c *v1alpha1.ExamContent) { c.Name = "second" }, "Stalled", "True", "ExamKeyConflict")(in)
		}},
		{name: "of-a-key-that-may-not-be-adopted", restricted: true, reach: func(in *installation) client.Object {
			in.publishAs(catalog.Claim{Cluster: "south", Namespace: in.space(), Name: "owner"}, "xx-sample")
			return exam(func(c *v1alpha1.ExamContent) { c.Spec.Adopt = true }, "Stalled", "True", "AdoptionNotAllowed")(in)
		}},
	}
}

// unseenHealth returns the resources that the operator cannot reconcile.
func unseenHealth() []healthCase {
	return []healthCase{
		{name: "without-a-database", reach: func(in *installation) client.Object {
			in.restore = testkit.CutOff(in.t, in.pool)
			return exam(nil, "Ready", "False", "BackendUnavailable")(in)
		}},
		{name: "deleted-without-a-database", reach: func(in *installation) client.Object {
			content := exam(nil, "Ready", "True", "Ready")(in)
			in.restore = testkit.CutOff(in.t, in.pool)
			in.remove(content)
			in.until(content, "Ready", "False", "BackendUnavailable")
			return content
		}},
		{name: "changed-and-not-seen", reach: func(in *installation) client.Object {
			content := exam(nil, "Ready", "True", "Ready")(in).(*v1alpha1.ExamContent) //nolint:errcheck // made by exam
			in.stop()
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
			return content
		}},
		{name: "never-seen", reach: func(in *installation) client.Object {
			in.stop()
			content := sampleContent("sample", "xx-sample")
			in.create(content)
			return content
		}},
	}
}

// endpoint makes a reach that creates a sample endpoint, changed first, and waits until it is Ready, or for a reason of
// Ready. columns are what a worker notes then.
func endpoint(change func(*v1alpha1.WebhookEndpoint), reason, columns string) func(*installation) client.Object {
	return func(in *installation) client.Object {
		made := sampleEndpoint("https://hooks.example.com/")
		if change != nil {
			change(made)
		}
		in.create(made)
		if reason != v1alpha1.ReasonReady {
			in.until(made, v1alpha1.ConditionReady, "False", reason)
			return made
		}
		in.ready(made)
		if columns != "" {
			in.health(made, columns)
			in.reconcileNow(made, "now")
		}
		return made
	}
}

func endpointHealth() []healthCase {
	suspended := func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = true }
	return []healthCase{
		{name: "registered", reach: endpoint(nil, "Ready", "")},
		{name: "delivering", reach: endpoint(nil, "Ready", "last_status = 200, last_success_at = now()")},
		{name: "failing", reach: endpoint(nil, "Ready", "last_status = 500, failing_since = now() - interval '1 hour'")},
		{name: "failing-for-long", reach: endpoint(nil, "Ready", "last_status = 500, failing_since = now() - interval '4 days'")},
		{name: "disabled", reach: endpoint(nil, "Ready", "status = 'disabled', disabled_reason = 'for a test'")},
		{name: "suspended", reach: endpoint(suspended, "Ready", "")},
		{name: "without-its-secret", reach: endpoint(func(e *v1alpha1.WebhookEndpoint) {
			e.Spec.SigningSecretRef = &v1alpha1.SecretKeyRef{Name: "given"}
		}, "RefNotFound", "")},
		{name: "invalid", reach: endpoint(func(e *v1alpha1.WebhookEndpoint) { e.Spec.URL = "https://10.0.0.1/" }, "Invalid", "")},
		{name: "of-an-account-of-others", restricted: true, reach: endpoint(func(e *v1alpha1.WebhookEndpoint) {
			e.Spec.Account = "acme"
		}, "AccountNotAllowed", "")},
		{name: "never-seen", reach: func(in *installation) client.Object {
			in.stop()
			made := sampleEndpoint("https://hooks.example.com/")
			in.create(made)
			return made
		}},
	}
}

func otherHealth() []healthCase {
	return []healthCase{
		{name: "in-effect", reach: func(in *installation) client.Object {
			tier := sampleTier("gold", 600)
			in.createReady(tier)
			return tier
		}},
		{name: "of-a-name-that-is-taken", reach: func(in *installation) client.Object {
			spec := keys.TierSpec{Name: "gold", Requests: 1, Period: time.Minute, ManagedBy: "test/elsewhere/gold"}
			check.NoError(in.t, in.deps.Tiers.ApplyTier(in.t.Context(), spec))
			tier := sampleTier("gold", 600)
			in.create(tier)
			in.until(tier, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonNameConflict)
			return tier
		}},
		{name: "never-seen", reach: func(in *installation) client.Object {
			in.stop()
			tier := sampleTier("gold", 600)
			in.create(tier)
			return tier
		}},
	}
}
