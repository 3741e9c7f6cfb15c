package controllers

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/client"
	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/accounts"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func testKeyring(t *testing.T) *webhooks.Keyring {
	t.Helper()
	keyring, err := webhooks.ParseKeyring("k1:" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")))
	check.NoError(t, err)
	return keyring
}

func newReceiver(t *testing.T) *testkit.Receiver {
	t.Helper()
	r := testkit.StartReceiver(t, nil)
	r.Status.Store(http.StatusNoContent)
	return r
}

func (in *installation) deliver(r *testkit.Receiver) {
	in.t.Helper()
	redis, prefix := testkit.Redis(in.t)
	worker, err := delivery.New(delivery.Config{
		Prefix: prefix, Allowed: delivery.Ranges{Declared: loopback()}, RetryDelays: slices.Repeat([]time.Duration{time.Millisecond}, 5), SweepInterval: 20 * time.Millisecond,
		CAPEM: r.CAPEM(), Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience,
	}, in.pool, redis, testKeyring(in.t))
	check.NoError(in.t, err)
	testkit.Run(in.t, worker.Run)
}

func sampleEndpoint(url string) *v1alpha1.WebhookEndpoint {
	endpoint := &v1alpha1.WebhookEndpoint{}
	endpoint.Name = "receiver"
	endpoint.Spec = v1alpha1.WebhookEndpointSpec{URL: url, Events: []v1alpha1.EventKind{"exam.content_updated"}, Description: "a test's"}
	return endpoint
}

func TestDeclaredEndpointGetsSignedEventsAndShowsItsHealth(t *testing.T) {
	t.Parallel()
	in := operating(t)
	r := newReceiver(t)
	in.deliver(r)
	endpoint := sampleEndpoint(r.URL + "/hook")
	in.createReady(endpoint)
	in.until(endpoint, v1alpha1.ConditionDelivering, "Unknown", v1alpha1.ReasonNoDeliveries)
	if endpoint.Status.ID == "" || endpoint.Status.URL != r.URL+"/hook" || endpoint.Status.SigningSecret != "receiver-signing-secret" {
		t.Errorf("status: %+v", endpoint.Status)
	}
	secret := in.secret("receiver-signing-secret")
	if !metav1.IsControlledBy(secret, endpoint) || !strings.HasPrefix(string(secret.Data["secret"]), "whsec_") {
		t.Errorf("generated Secret: %+v", secret)
	}

	content := sampleContent("sample", sampleKey(t))
	in.createReady(content)
	delivery := r.Next(t)
	check.Succeeds(t, client.Verify(delivery.Header.Get(webhooks.SignatureHeader), delivery.Body, string(secret.Data["secret"]), time.Now(), 5*time.Minute), "the signature does not verify with the generated secret")
	if !strings.Contains(string(delivery.Body), content.Spec.ExamKey) {
		t.Errorf("delivered: %s", delivery.Body)
	}
	in.delivering(endpoint, "True", v1alpha1.ReasonDelivering)
	if endpoint.Status.LastStatus != http.StatusNoContent || endpoint.Status.FailingSince != nil || endpoint.Status.Backlog != 0 {
		t.Errorf("status of a healthy endpoint: %+v", endpoint.Status)
	}

	r.Status.Store(http.StatusInternalServerError)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.delivering(endpoint, "False", v1alpha1.ReasonFailing)
	in.ready(endpoint)
	if endpoint.Status.LastStatus != http.StatusInternalServerError || endpoint.Status.FailingSince == nil {
		t.Errorf("status of a failing endpoint: %+v", endpoint.Status)
	}

	r.Status.Store(http.StatusGone)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed again" })
	in.delivering(endpoint, "False", v1alpha1.ReasonDisabled)
	in.until(endpoint, v1alpha1.ConditionReady, "False", v1alpha1.ReasonDisabled)
	in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonDisabled)

	// As the message says: repair the receiver, suspend, resume.
	r.Status.Store(http.StatusOK)
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = true })
	in.ready(endpoint)
	in.until(endpoint, v1alpha1.ConditionDelivering, "False", v1alpha1.ReasonSuspended)
	edit(in, endpoint, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Suspend = false })
	in.ready(endpoint)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed once more" })
	in.delivering(endpoint, "True", v1alpha1.ReasonDelivering)
}

// delivering makes the operator read the delivery health until the condition has this status and reason. Otherwise the
// operator reads it once a minute.
func (in *installation) delivering(endpoint *v1alpha1.WebhookEndpoint, status metav1.ConditionStatus, reason string) {
	in.t.Helper()
	in.eventually("Delivering="+string(status)+"/"+reason, func() (bool, string) {
		in.reconcileNow(endpoint, time.Now().Format(time.RFC3339Nano))
		for _, condition := range in.conditions(endpoint) {
			if condition.Type == v1alpha1.ConditionDelivering {
				return condition.Status == status && condition.Reason == reason, condition.Reason + ": " + condition.Message
			}
		}
		return false, "no such condition"
	})
}

func (in *installation) secret(name string) *corev1.Secret {
	in.t.Helper()
	secret := &corev1.Secret{}
	check.NoError(in.t, in.kube.Get(in.t.Context(), types.NamespacedName{Namespace: in.space(), Name: name}, secret))
	return secret
}

func (in *installation) registered(endpoint *v1alpha1.WebhookEndpoint) *webhooks.Health {
	in.t.Helper()
	health, err := webhooks.NewManaged(in.pool, testKeyring(in.t), webhooks.NewAddressPolicy(nil)).Health(in.t.Context(), "test/"+endpoint.Namespace+"/"+endpoint.Name)
	if errorIs[*webhooks.NotFoundError](err) {
		return nil
	}
	check.NoError(in.t, err)
	return &health
}

func TestEndpointWaitsForItsSecret(t *testing.T) {
	t.Parallel()
	in := operating(t)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	endpoint.Spec.SigningSecretRef = &v1alpha1.SecretKeyRef{Name: "mine", Key: "key"}
	in.create(endpoint)
	message := in.until(endpoint, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
	check.Equal(t, message, "spec.signingSecretRef: Secret "+in.space()+"/mine not found", "message")
	in.until(endpoint, v1alpha1.ConditionReconciling, "True", v1alpha1.ReasonProgressing)
	if in.registered(endpoint) != nil {
		t.Error("registered without a secret")
	}

	secret := &corev1.Secret{StringData: map[string]string{"key": "short"}}
	secret.Name = "mine"
	in.create(secret)
	in.reconcileNow(endpoint, "short")
	in.until(endpoint, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefInvalid)

	edit(in, secret, func(s *corev1.Secret) {
		s.StringData = map[string]string{"key": strings.Repeat("long enough ", 3) + "\n"}
	})
	in.reconcileNow(endpoint, "long")
	in.ready(endpoint)
	check.Equal(t, endpoint.Status.SigningSecret, "mine", "status: %+v", endpoint.Status)
}

func TestEndpointLeavesASecretOfSomebodyElseAlone(t *testing.T) {
	t.Parallel()
	in := operating(t)
	theirs := &corev1.Secret{StringData: map[string]string{"secret": strings.Repeat("theirs ", 10)}}
	theirs.Name = "receiver" + generatedSuffix
	in.create(theirs)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	in.create(endpoint)
	message := in.until(endpoint, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefInvalid)
	check.Contains(t, message, "does not belong to this resource", "message")
}

func TestEndpointIsRegisteredForItsAccountUntilDeleted(t *testing.T) {
	t.Parallel()
	in := operating(t)
	endpoint := sampleEndpoint("https://hooks.example.com/")
	endpoint.Spec.Account = "acme"
	in.create(endpoint)
	check.Equal(t, in.ready(endpoint), "registered for the events of account acme", "message of Ready")
	account, err := accounts.Ensure(t.Context(), in.pool, "acme")
	check.NoError(t, err)
	list, err := webhooks.NewEndpoints(in.pool, testKeyring(t), webhooks.NewAddressPolicy(nil)).List(t.Context(), account)
	if err != nil || len(list) != 1 || list[0].ID.String() != endpoint.Status.ID || list[0].ManagedBy != "test/"+in.space()+"/receiver" {
		t.Errorf("the account's endpoints: %+v, %v", list, err)
	}

	in.delete(endpoint)
	if in.registered(endpoint) != nil {
		t.Error("registered after the deletion")
	}
}

func TestEndpointInAPrivateRangeIsRefusedByItsField(t *testing.T) {
	t.Parallel()
	in := operating(t)
	endpoint := sampleEndpoint("https://10.0.0.1/")
	in.create(endpoint)
	message := in.until(endpoint, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalid)
	if !strings.HasPrefix(message, "spec.url ") {
		t.Errorf("message %q", message)
	}
	in.until(endpoint, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalid)
}

func TestIdleEndpointIsNotWritten(t *testing.T) {
	t.Parallel()
	in, endpoint := registering(t)
	in.reconcileNow(endpoint, "first")
	in.writes.Store(0)
	in.reconcileNow(endpoint, "second")
	in.ready(endpoint)
	check.Equal(t, in.writes.Load(), 1, "writes for one request, which are the request's own")
}
