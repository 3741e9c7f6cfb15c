package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

func (in *installation) letAdopt(keys string) {
	in.t.Helper()
	namespace := &corev1.Namespace{}
	namespace.Name = in.space()
	edit(in, namespace, func(n *corev1.Namespace) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AdoptsAnnotation, keys)
	})
}

func (in *installation) publishAs(claim catalog.Claim, examKey string) {
	in.t.Helper()
	exam, err := assemble.Assemble(in.t.Context(), sampleContent(claim.Name, examKey), nil)
	check.NoError(in.t, err)
	_, err = in.deps.Publisher.Publish(in.t.Context(), claim, exam, catalog.Options{})
	check.NoError(in.t, err)
}

// adopter returns an exam that takes its key from any owner, and whose deletion deletes the published exam.
func adopter(examKey string) *v1alpha1.ExamContent {
	content := sampleContent("adopter", examKey)
	content.Spec.Name, content.Spec.Adopt, content.Spec.DeletionPolicy = "Adopted", true, v1alpha1.DeletionDelete
	return content
}

func restrictedAdoption(t *testing.T, namespaces int) *installation {
	t.Helper()
	in := install(t, postgres.Sandbox, namespaces)
	in.deps.RestrictAdoption = true
	in.operate()
	return in
}

func TestAnExamOfAnotherNamespaceIsAdoptedByPermissionOnly(t *testing.T) {
	t.Parallel()
	in := restrictedAdoption(t, 2)
	owner, taker := sampleContent("owner", sampleKey(t)), adopter(sampleKey(t))
	owner.Namespace = in.spaces[1]
	in.createReady(owner)
	in.create(taker)
	for _, listed := range []string{"", "xx-another\n  xx-third \n", "xx", "*-third", "[", strings.ToUpper(owner.Spec.ExamKey)} {
		in.letAdopt(listed)
		in.reconcileNow(taker, "with "+strings.TrimSpace(listed))
		message := in.until(taker, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonAdoptionNotAllowed)
		for _, part := range []string{"spec.adopt: ", in.spaces[1] + "/owner", "annotation examprep.dev/adopts of namespace " + in.space(), "it lists "} {
			check.Contains(t, message, part, "message")
		}
		in.until(taker, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonAdoptionNotAllowed)
	}
	edit(in, taker, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
	in.until(taker, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonAdoptionNotAllowed)
	in.delete(taker)
	in.reconcileNow(owner, "after the taker")
	in.ready(owner)
	in.serves(owner.Spec.ExamKey, owner.Spec.Name, "after the taker")
	check.Equal(t, owner.Status.Revision, 1, "revision after the taker")

	in.letAdopt("xx-another\nxx-testan*permissiononly\n")
	taker = adopter(sampleKey(t))
	in.createReady(taker)
	in.reconcileNow(owner, "after the move")
	in.until(owner, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
}

func TestUnclaimedKeyIsAdoptedFreely(t *testing.T) {
	t.Parallel()
	in := restrictedAdoption(t, 2)
	here, there := in.space(), in.spaces[1]
	renamed := sampleContent("reused", sampleKey(t)+"-another")
	renamed.Namespace = there
	in.createReady(renamed)
	for name, owner := range map[string]catalog.Claim{
		"of-the-namespace": {Cluster: "test", Namespace: here, Name: "sibling"},
		"left-behind":      {Cluster: "test", Namespace: there, Name: "gone"},
		"name-reused":      {Cluster: "test", Namespace: there, Name: "reused"},
	} {
		taker := adopter(sampleKey(t) + "-" + name)
		taker.Name = name
		in.publishAs(owner, taker.Spec.ExamKey)
		if owner.Namespace == there { // a roll-back brings nothing of the taker's
			taker.Spec.Revision = new(int64(1))
			in.create(taker)
			in.until(taker, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonAdoptionNotAllowed)
			edit(in, taker, func(c *v1alpha1.ExamContent) { c.Spec.Revision = nil })
			in.ready(taker)
			continue
		}
		in.createReady(taker)
	}
	sibling, heir := sampleContent("sibling", sampleKey(t)), adopter(sampleKey(t))
	in.createReady(sibling)
	in.create(heir)
	in.ready(heir)
	in.reconcileNow(sibling, "after the move")
	in.until(sibling, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
}

// TestUnreadableOwnerIsTakenToExist has an owner in another cluster, and one in a namespace that the operator has no right to
// read.
func TestUnreadableOwnerIsTakenToExist(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	user := "operator-of-" + in.space()
	clustertest.Grant(t, in.kube, in.space(), user, clustertest.Rules(t, "role.yaml"))
	in.config = clustertest.As(clustertest.Config(t), user)
	in.deps.RestrictAdoption = true
	in.operate()
	for name, owner := range map[string]catalog.Claim{
		"of-another-cluster":   {Cluster: "south", Namespace: in.space(), Name: "owner"},
		"of-another-namespace": {Cluster: "test", Namespace: clustertest.Namespace(t), Name: "owner"},
	} {
		taker := adopter(sampleKey(t) + "-" + name)
		taker.Name = name
		in.publishAs(owner, taker.Spec.ExamKey)
		in.create(taker)
		in.until(taker, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonAdoptionNotAllowed)
	}
}

// TestUnsealedExamIsNotAdopted: an adopter whose papers are rejected waits, and the owner keeps its exam.
func TestUnsealedExamIsNotAdopted(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Production, 1)
	in.operate()
	owner, taker := sampleContent("owner", sampleKey(t)), adopter(sampleKey(t))
	seal(t, owner)
	in.createReady(owner)
	in.create(taker)
	in.until(taker, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealMismatch)
	check.Contains(t, in.until(taker, v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted), "/owner", "message")
	edit(in, owner, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(owner)
	edit(in, taker, func(c *v1alpha1.ExamContent) { seal(t, c) })
	in.ready(taker)
	in.reconcileNow(owner, "after the move")
	in.until(owner, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
}
