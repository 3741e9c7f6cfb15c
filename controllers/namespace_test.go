package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func namespace(name string) *corev1.Namespace {
	space := &corev1.Namespace{}
	space.Name = name
	return space
}

func (in *installation) populate(key string) (withdrawn, kept *v1alpha1.ExamContent, others []client.Object) {
	in.t.Helper()
	text, digest := chunk(in.t, 1, 2)
	in.create(chunkMap("questions", text))
	withdrawn, kept = sampleContent("withdrawn", key+"-1"), sampleContent("kept", key+"-2")
	withdrawn.Spec.DeletionPolicy, kept.Spec.DeletionPolicy = v1alpha1.DeletionDelete, v1alpha1.DeletionRetain
	withdrawn.Spec.Papers = append(withdrawn.Spec.Papers, chunkedPaper(key+"-1-2024", "questions", digest))
	broken, suspended, rival := sampleContent("broken", key+"-3"), sampleContent("suspended", key+"-4"), sampleContent("rival", key+"-2")
	breakContent(broken)
	suspended.Spec.Suspend = true
	rival.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	secret := &corev1.Secret{StringData: map[string]string{"secret": "whsec_0123456789abcdef0123456789abcdef"}}
	secret.Name = "given"
	given, generated := sampleEndpoint("https://hooks.example.com/given"), sampleEndpoint("https://hooks.example.com/generated")
	given.Name, generated.Name = "given", "generated"
	given.Spec.SigningSecretRef = &v1alpha1.SecretKeyRef{Name: "given"}
	tier := sampleTier("gold", 600)
	for _, object := range []client.Object{withdrawn, kept, secret, given, generated, tier} {
		in.create(object)
		if object != client.Object(secret) {
			in.ready(object)
		}
	}
	for _, object := range []client.Object{broken, suspended, rival} {
		in.create(object)
	}
	in.until(broken, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalid)
	in.until(suspended, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
	in.until(rival, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
	return withdrawn, kept, []client.Object{broken, suspended, rival, given, generated, tier}
}

// The API server of tests runs no controller of namespaces. The test does what that does, in the order that is worst here:
// ConfigMaps and Secrets go first.
func TestANamespaceGoesWithEverythingInItThoughTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	withdrawn, kept, others := in.populate(key)
	all := append([]client.Object{withdrawn, kept}, others...)
	restore := testkit.CutOff(t, in.pool)

	space := namespace(in.space())
	in.remove(space)
	for _, kind := range []client.Object{
		&corev1.ConfigMap{}, &corev1.Secret{}, &v1alpha1.ExamContent{}, &v1alpha1.WebhookEndpoint{}, &v1alpha1.RateTier{},
	} {
		check.NoError(t, in.kube.DeleteAllOf(t.Context(), kind, client.InNamespace(in.space())))
	}
	// What has something in the database waits for it, and says so though nothing may be created in the namespace any more.
	for _, waiting := range []client.Object{withdrawn, kept} {
		in.until(waiting, v1alpha1.ConditionReady, "False", v1alpha1.ReasonBackendUnavailable)
	}

	restore()
	for _, object := range all {
		in.gone(object)
	}
	check.NoError(t, in.kube.Get(t.Context(), client.ObjectKeyFromObject(space), space))
	space.Spec.Finalizers = nil
	check.NoError(t, in.kube.SubResource("finalize").Update(t.Context(), space))
	in.gone(space)
	if _, ok := in.served(withdrawn.Spec.ExamKey); ok {
		t.Error("the exam with deletion policy Delete is served")
	}
	if overview, _ := in.served(kept.Spec.ExamKey); overview["name"] != kept.Spec.Name {
		t.Errorf("of the exam with deletion policy Retain is served: %v", overview)
	}
	if in.tier("gold") != nil {
		t.Error("the tier is in effect")
	}
	check.Equal(t, testkit.Get[int](t, in.pool, "SELECT count(*) FROM webhook_endpoints"), 0, "registered endpoints")
}
