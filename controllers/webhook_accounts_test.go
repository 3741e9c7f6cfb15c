package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

func (in *installation) allow(accounts string) {
	in.t.Helper()
	namespace := &corev1.Namespace{}
	namespace.Name = in.space()
	edit(in, namespace, func(n *corev1.Namespace) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.WebhookAccountsAnnotation, accounts)
	})
}

func restricted(t *testing.T) *installation {
	t.Helper()
	in := install(t, postgres.Sandbox, 1)
	in.deps.RestrictWebhookAccounts = true
	in.operate()
	return in
}

func TestEndpointsHearOfTheAccountsOfTheirNamespaceOnly(t *testing.T) {
	t.Parallel()
	in := restricted(t)
	in.allow("acme\n globex, inc. \n\nZ\u00fcrich")
	const attempts, exams = "mock_attempt.scored", "exam.content_updated"
	for name, c := range map[string]struct {
		account string
		events  []v1alpha1.EventKind
		refusal string
	}{
		"its-own":              {"acme", []v1alpha1.EventKind{attempts}, ""},
		"with-a-comma":         {"globex, inc.", []v1alpha1.EventKind{attempts, exams}, ""},
		"in-another-form":      {"Zu\u0308rich", []v1alpha1.EventKind{attempts}, ""},
		"exams-of-no-account":  {"", []v1alpha1.EventKind{exams}, ""},
		"anothers":             {"initech", []v1alpha1.EventKind{attempts}, `the attempts of account "initech"`},
		"anothers-exams":       {"initech", []v1alpha1.EventKind{exams}, `the attempts of account "initech"`},
		"everyones":            {"", []v1alpha1.EventKind{attempts}, "the attempts of all accounts"},
		"everyones-and-exams":  {"", []v1alpha1.EventKind{exams, attempts}, "the attempts of all accounts"},
		"the-sign-for-any":     {"*", []v1alpha1.EventKind{attempts}, `the attempts of account "*"`},
		"half-of-a-name":       {"globex", []v1alpha1.EventKind{attempts}, `the attempts of account "globex"`},
		"by-another-case":      {"ACME", []v1alpha1.EventKind{attempts}, `the attempts of account "ACME"`},
		"two-lines-as-account": {"acme globex", []v1alpha1.EventKind{attempts}, `the attempts of account "acme globex"`},
	} {
		endpoint := sampleEndpoint("https://hooks.example.com/")
		endpoint.Name, endpoint.Spec.Account, endpoint.Spec.Events = name, c.account, c.events
		in.create(endpoint)
		if c.refusal == "" {
			in.ready(endpoint)
			continue
		}
		message := in.until(endpoint, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonAccountNotAllowed)
		want := "spec.account: namespace " + in.space() + " must not receive " + c.refusal
		if !strings.HasPrefix(message, want) || !strings.Contains(message, "it lists acme, globex, inc.") {
			t.Errorf("%s: message %q, want %q", name, message, want)
		}
		in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonAccountNotAllowed)
		if in.registered(endpoint) != nil || endpoint.Status.ID != "" {
			t.Errorf("%s is registered", name)
		}
	}
	if accounts := testkit.Get[int](t, in.pool, "SELECT count(*) FROM accounts WHERE name NOT IN ('acme', 'globex, inc.', 'Z\u00fcrich')"); accounts > 0 {
		t.Errorf("%d accounts were made for endpoints that were refused", accounts)
	}
}

func TestAnEndpointWhoseAccountIsAllowedNoMoreHearsNothing(t *testing.T) {
	t.Parallel()
	in := restricted(t)
	in.allow(v1alpha1.AllAccounts)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	endpoint.Spec.Events = []v1alpha1.EventKind{"mock_attempt.submitted"}
	in.createReady(endpoint)
	if in.registered(endpoint) == nil {
		t.Fatal("not registered")
	}
	in.allow("")
	in.reconcileNow(endpoint, "or a minute later")
	message := in.until(endpoint, v1alpha1.ConditionReady, "False", v1alpha1.ReasonAccountNotAllowed)
	if in.registered(endpoint) != nil || strings.Contains(message, "deliveries continue") || !strings.Contains(message, "it lists none") {
		t.Errorf("registered, or said to be: %q", message)
	}
	in.allow("acme")
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Account = "acme" })
	in.ready(endpoint)
	in.delete(endpoint)
}

func TestWithoutTheRestrictionNoNamespaceIsAsked(t *testing.T) {
	t.Parallel()
	in := operating(t)
	in.allow("acme")
	endpoint := sampleEndpoint("https://hooks.example.com/")
	endpoint.Spec.Events = []v1alpha1.EventKind{"mock_attempt.submitted"}
	in.createReady(endpoint)
	if err := in.kube.Get(t.Context(), types.NamespacedName{Namespace: endpoint.Namespace, Name: endpoint.Name}, endpoint); err != nil || endpoint.Status.ID == "" {
		t.Errorf("status %+v, %v", endpoint.Status, err)
	}
}
