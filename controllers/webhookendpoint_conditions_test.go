package controllers

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// shows waits, looking again and again, until an endpoint has these conditions and no others: type to status and reason.
func (in *installation) shows(endpoint *v1alpha1.WebhookEndpoint, want map[string]string) {
	in.t.Helper()
	in.eventually(fmt.Sprint(endpoint.Name, " shows ", want), func() (bool, string) {
		in.reconcileNow(endpoint, time.Now().Format(time.RFC3339Nano))
		got := map[string]string{}
		for _, condition := range in.conditions(endpoint) {
			got[condition.Type] = string(condition.Status) + " " + condition.Reason
		}
		return maps.Equal(got, want), fmt.Sprint(got)
	})
}

// health sets the columns in which workers store an endpoint's delivery health.
func (in *installation) health(endpoint *v1alpha1.WebhookEndpoint, columns string) {
	in.t.Helper()
	testkit.Exec(in.t, in.pool, "UPDATE webhook_endpoints SET "+columns+" WHERE id = $1", endpoint.Status.ID)
}

// The conditions of an endpoint that is registered, but for Delivering.
func registeredAnd(delivering string) map[string]string {
	return map[string]string{"Ready": "True Ready", "ResolvedRefs": "True Resolved", "Accepted": "True Accepted", "Delivering": delivering}
}

// TestEndpointConditionsNameTheCause causes each reason of each condition, and checks the other conditions as well.
func TestEndpointConditionsNameTheCause(t *testing.T) {
	t.Parallel()
	in := operating(t)
	ofSecret := func(key string) func(*v1alpha1.WebhookEndpoint) {
		return func(e *v1alpha1.WebhookEndpoint) {
			e.Spec.SigningSecretRef = &v1alpha1.SecretKeyRef{Name: "given", Key: key}
		}
	}
	given := &corev1.Secret{StringData: map[string]string{"short": "short"}}
	given.Name = "given"
	in.create(given)
	unresolved := func(reason string) map[string]string {
		return map[string]string{
			"Ready": "False " + reason, "ResolvedRefs": "False " + reason, "Accepted": "Unknown " + reason, "Delivering": "Unknown " + reason,
			"Reconciling": "True Progressing",
		}
	}
	invalid := map[string]string{
		"Ready": "False Invalid", "ResolvedRefs": "True Resolved", "Accepted": "False Invalid", "Delivering": "Unknown Invalid", "Stalled": "True Invalid",
	}
	disabled := map[string]string{
		"Ready": "False Disabled", "ResolvedRefs": "True Resolved", "Accepted": "True Accepted", "Delivering": "False Disabled", "Stalled": "True Disabled",
	}
	for name, c := range map[string]struct {
		declare func(*v1alpha1.WebhookEndpoint)
		health  string
		want    map[string]string
	}{
		"new":                      {nil, "", registeredAnd("Unknown NoDeliveries")},
		"delivering":               {nil, "last_status = 200, last_success_at = now()", registeredAnd("True Delivering")},
		"failing":                  {nil, "last_status = 500, failing_since = now() - interval '59 hours'", registeredAnd("False Failing")},
		"failing-for-long":         {nil, "last_status = 500, failing_since = now() - interval '61 hours'", registeredAnd("False FailingLong")},
		"failing-and-never-tried":  {nil, "failing_since = now() - interval '9 days'", registeredAnd("False FailingLong")},
		"disabled":                 {nil, "status = 'disabled', disabled_reason = 'for a test', failing_since = now() - interval '5 days'", disabled},
		"suspended":                {func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = true }, "", registeredAnd("False Suspended")},
		"without-its-secret":       {ofSecret("other"), "", unresolved("RefNotFound")},
		"with-too-short-a-secret":  {ofSecret("short"), "", unresolved("RefInvalid")},
		"at-an-address-of-its-own": {func(e *v1alpha1.WebhookEndpoint) { e.Spec.URL = "https://10.0.0.1/" }, "", invalid},
	} {
		endpoint := sampleEndpoint("https://hooks.example.com/")
		endpoint.Name = name
		if c.declare != nil {
			c.declare(endpoint)
		}
		in.create(endpoint)
		if c.health != "" {
			in.ready(endpoint)
			in.health(endpoint, c.health)
		}
		in.shows(endpoint, c.want)
		if (endpoint.Status.DisablesAt != nil) != strings.HasPrefix(name, "failing") {
			t.Errorf("%s: disabled at %v", name, endpoint.Status.DisablesAt)
		}
	}
}

func TestEndpointWithoutADatabaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	in := operating(t)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	restore := testkit.CutOff(t, in.pool)
	in.create(endpoint)
	in.until(endpoint, v1alpha1.ConditionReady, "False", v1alpha1.ReasonBackendUnavailable)
	in.until(endpoint, v1alpha1.ConditionReconciling, "True", v1alpha1.ReasonProgressing)
	in.until(endpoint, v1alpha1.ConditionDelivering, "Unknown", v1alpha1.ReasonBackendUnavailable)
	restore()
	in.ready(endpoint)
}

func TestEndpointWarnsOnceBeforeItIsDisabled(t *testing.T) {
	t.Parallel()
	in, endpoint := registering(t)
	in.health(endpoint, "last_status = 503, failing_since = now() - interval '1 hour'")
	in.shows(endpoint, registeredAnd("False Failing"))
	in.health(endpoint, "failing_since = now() - interval '3 days'")
	in.shows(endpoint, registeredAnd("False FailingLong"))
	check.Equal(t, endpoint.Status.DisablesAt.Sub(endpoint.Status.FailingSince.Time), webhooks.DisableAfter, "time from the first failure to disabling")
	message := in.until(endpoint, v1alpha1.ConditionDelivering, "False", v1alpha1.ReasonFailingLong)
	if want := endpoint.Status.DisablesAt.UTC().Format(time.RFC3339); !strings.Contains(message, want) || !strings.Contains(message, "503") {
		t.Errorf("message %q, want the status and %s", message, want)
	}
	told := in.events(endpoint, 2)
	in.writes.Store(0)
	in.reconcileNow(endpoint, "once more")
	check.Equal(t, in.writes.Load(), 1, "writes for one request, which are the request's own")
	in.health(endpoint, "last_status = 200, failing_since = NULL, last_success_at = now()")
	in.shows(endpoint, registeredAnd("True Delivering"))
	if endpoint.Status.DisablesAt != nil || endpoint.Status.FailingSince != nil {
		t.Errorf("status of an endpoint that has recovered: %+v", endpoint.Status)
	}
	if after := in.events(endpoint, 2); len(after) != 2 || after[1] != "Warning FailingLong" && after[0] != "Warning FailingLong" {
		t.Errorf("events %q, then %q: want one warning beside Ready's", told, after)
	}
}

func TestDisabledEndpointIsEnabledBySuspendingAndResuming(t *testing.T) {
	t.Parallel()
	in, endpoint := registering(t)
	in.health(endpoint, "status = 'disabled', disabled_reason = 'for a test', failing_since = now() - interval '5 days'")
	in.reconcileNow(endpoint, "after it was disabled")
	message := in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonDisabled)
	check.Equal(t, message, "disabled: for a test; fix the receiver, then set spec.suspend to true and back to false, or change spec.url", "message")
	id := endpoint.Status.ID
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = true })
	in.until(endpoint, v1alpha1.ConditionDelivering, "False", v1alpha1.ReasonSuspended)
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = false })
	in.shows(endpoint, registeredAnd("Unknown NoDeliveries"))
	if health := in.registered(endpoint); health.Status != webhooks.StatusEnabled || health.FailingSince != nil || health.ID.String() != id {
		t.Errorf("registered as %+v", health)
	}

	in.health(endpoint, "status = 'disabled', disabled_reason = 'for a test'")
	in.reconcileNow(endpoint, "after it was disabled again")
	in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonDisabled)
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.URL = "https://other.example.com/" })
	in.ready(endpoint)
	if err := in.kube.Get(t.Context(), client.ObjectKeyFromObject(endpoint), endpoint); err != nil || endpoint.Status.URL != "https://other.example.com/" {
		t.Errorf("status %+v, %v", endpoint.Status, err)
	}
}
