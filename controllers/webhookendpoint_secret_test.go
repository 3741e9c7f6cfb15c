package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/client"
	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

func (in *installation) requestRotation(endpoint *v1alpha1.WebhookEndpoint, token string) {
	in.t.Helper()
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.RotateRequestAnnotation, token)
	})
}

// rotated waits until a request for rotation was answered and returns the secret.
func (in *installation) rotated(endpoint *v1alpha1.WebhookEndpoint, token string) string {
	in.t.Helper()
	in.eventually("rotation "+token, func() (bool, string) {
		in.ready(endpoint)
		return endpoint.Status.LastHandledRotateAt == token, endpoint.Status.LastHandledRotateAt
	})
	return in.signingSecretOf(endpoint)
}

func (in *installation) signingSecretOf(endpoint *v1alpha1.WebhookEndpoint) string {
	in.t.Helper()
	return string(in.secret(endpoint.Name + generatedSuffix).Data[generatedKey])
}

// tell makes an event and returns what arrives of it.
func (in *installation) tell(r *testkit.Receiver, content *v1alpha1.ExamContent, name string) testkit.Arrival {
	in.t.Helper()
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = name })
	in.ready(content)
	return r.Next(in.t)
}

func signedBy(t *testing.T, when string, delivery testkit.Arrival, signing, silent []string) {
	t.Helper()
	verify := func(secret string) error {
		return client.Verify(delivery.Header.Get(webhooks.SignatureHeader), delivery.Body, secret, time.Now(), 5*time.Minute)
	}
	for i, secret := range signing {
		check.Succeeds(t, verify(secret), "%s: secret %d of those in effect does not sign", when, i)
	}
	for i, secret := range silent {
		if verify(secret) == nil {
			t.Errorf("%s: secret %d of those out of effect signs", when, i)
		}
	}
	check.Equal(t, strings.Count(delivery.Header.Get(webhooks.SignatureHeader), "v1="), len(signing), "%s: signatures in %s", when, delivery.Header.Get(webhooks.SignatureHeader))
}

// overlap reads for how long the endpoint's former secret still signs.
func (in *installation) overlap(endpoint *v1alpha1.WebhookEndpoint) time.Duration {
	in.t.Helper()
	var seconds float64
	const query = "SELECT extract(epoch FROM expires_at - created.at) FROM webhook_secrets, " +
		"(SELECT max(created_at) AS at FROM webhook_secrets WHERE endpoint_id = $1) created WHERE endpoint_id = $1 AND expires_at IS NOT NULL"
	check.NoError(in.t, in.pool.QueryRow(in.t.Context(), query, endpoint.Status.ID).Scan(&seconds))
	return time.Duration(seconds * float64(time.Second))
}

func TestGeneratedSecretIsRotatedOnRequestAndBothSign(t *testing.T) {
	t.Parallel()
	in := operating(t)
	r := newReceiver(t)
	in.deliver(r)
	endpoint, content := sampleEndpoint(r.URL), sampleContent("sample", sampleKey(t))
	in.createReady(endpoint)
	id, first := endpoint.Status.ID, in.signingSecretOf(endpoint)
	in.createReady(content)
	signedBy(t, "before", r.Next(t), []string{first}, nil)

	in.requestRotation(endpoint, "2026-01-31T12:00:00Z")
	second := in.rotated(endpoint, "2026-01-31T12:00:00Z")
	signedBy(t, "after one rotation", in.tell(r, content, "One"), []string{first, second}, nil)
	check.Equal(t, in.overlap(endpoint), 24*time.Hour, "how much longer the former secret signs")
	in.reconcileNow(endpoint, "looked at again")
	check.Equal(t, in.signingSecretOf(endpoint), second, "the secret after one request")

	in.requestRotation(endpoint, "again")
	third := in.rotated(endpoint, "again")
	signedBy(t, "after two rotations", in.tell(r, content, "Two"), []string{second, third}, []string{first})
	check.Equal(t, endpoint.Status.ID, id, "the endpoint is another one; its ID")
	want := "Normal " + v1alpha1.ReasonSecretRotated
	if told := in.events(endpoint, 2); !strings.Contains(fmt.Sprint(told), want) {
		t.Errorf("events: %q, want %q", told, want)
	}
}

// TestRotationRequestIsHandledOnce restarts the operator while the Secret is written and the database is unavailable.
func TestRotationRequestIsHandledOnce(t *testing.T) {
	t.Parallel()
	in, endpoint := registering(t)
	first := in.signingSecretOf(endpoint)
	restore := testkit.CutOff(t, in.pool)
	in.requestRotation(endpoint, "now")
	in.until(endpoint, v1alpha1.ConditionReady, "False", v1alpha1.ReasonBackendUnavailable)
	second := in.signingSecretOf(endpoint)
	if second == first || endpoint.Status.LastHandledRotateAt != "" {
		t.Errorf("rotated: %t; handled %q although it is not in effect", second != first, endpoint.Status.LastHandledRotateAt)
	}
	in.stop()
	restore()
	in.operate()
	check.Equal(t, in.rotated(endpoint, "now"), second, "the secret after one request")
}

// TestAnImmutableSecretIsTheOwnersToRepair: a condition says so, and the endpoint recovers when the Secret is deleted.
func TestAnImmutableSecretIsTheOwnersToRepair(t *testing.T) {
	t.Parallel()
	in, endpoint := registering(t)
	first := in.signingSecretOf(endpoint)
	secret := in.secret(endpoint.Name + generatedSuffix)
	edit(in, secret, func(s *corev1.Secret) { s.Immutable = new(true) })
	in.requestRotation(endpoint, "now")
	in.until(endpoint, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefInvalid)
	in.remove(secret)
	if second := in.rotated(endpoint, "now"); second == first {
		t.Error("the secret is the old one")
	}
}

func TestAnEndpointThatIsCreatedWithARequestHasOneSecret(t *testing.T) {
	t.Parallel()
	in := operating(t)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	endpoint.Annotations = map[string]string{v1alpha1.RotateRequestAnnotation: "from the start"}
	in.create(endpoint)
	in.rotated(endpoint, "from the start")
	if told := in.events(endpoint, 1); len(told) != 1 {
		t.Errorf("events: %q, want Ready's alone", told)
	}
}

func TestAChangedReferencedSecretRotatesAndBothSign(t *testing.T) {
	t.Parallel()
	in := operating(t)
	r := newReceiver(t)
	in.deliver(r)
	first, second := strings.Repeat("first ", 5), strings.Repeat("second ", 5)
	given := &corev1.Secret{StringData: map[string]string{"key": first}}
	given.Name = "given"
	in.create(given)
	endpoint, content := sampleEndpoint(r.URL), sampleContent("sample", sampleKey(t))
	endpoint.Spec.SigningSecretRef = &v1alpha1.SecretKeyRef{Name: "given", Key: "key"}
	in.createReady(endpoint)
	in.create(content)
	in.ready(content)
	signedBy(t, "before", r.Next(t), []string{first}, nil)

	edit(in, given, func(s *corev1.Secret) { s.StringData = map[string]string{"key": second} })
	in.reconcileNow(endpoint, "or a minute later")
	signedBy(t, "after the change", in.tell(r, content, "One"), []string{first, second}, nil)
	check.Equal(t, in.overlap(endpoint), 24*time.Hour, "how much longer the former secret signs")

	in.requestRotation(endpoint, "now")
	in.eventually("say how to rotate it", func() (bool, string) {
		message := in.until(endpoint, v1alpha1.ConditionResolvedRefs, "True", v1alpha1.ReasonResolved)
		return strings.Contains(message, "to rotate this one, change its content"), message
	})
	if got := in.secret("given"); string(got.Data["key"]) != second || len(got.Annotations) > 0 {
		t.Error("the operator wrote to somebody else's Secret")
	}
}

func TestAChangedURLIsWhereDeliveriesGo(t *testing.T) {
	t.Parallel()
	in := operating(t)
	before, after := newReceiver(t), newReceiver(t)
	in.deliver(after)
	endpoint, content := sampleEndpoint(before.URL), sampleContent("sample", sampleKey(t))
	in.createReady(endpoint)
	id, secret := endpoint.Status.ID, in.signingSecretOf(endpoint)
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.URL = after.URL + "/moved" })
	in.ready(endpoint)
	if endpoint.Status.URL != after.URL+"/moved" || endpoint.Status.ID != id {
		t.Errorf("status: %+v", endpoint.Status)
	}
	in.createReady(content)
	signedBy(t, "at the new address", after.Next(t), []string{secret}, nil)
	if len(before.Arrived) > 0 {
		t.Error("delivered to the former address")
	}
}

// The Secret could never be created, and the operator retried it indefinitely as an outage.
func TestAnEndpointWithATooLongNameForItsSecretStalls(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	in.operate()
	endpoint := sampleEndpoint("https://example.com/")
	endpoint.Name = strings.Repeat("a", v1alpha1.MaxEndpointName+1)
	in.create(endpoint)
	message := in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalid)
	check.Contains(t, message, "metadata.name: must have at most 238 characters", "message")
	in.until(endpoint, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalid)
}
