package controllers

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func statusOf(object client.Object) (conditions []metav1.Condition, observed int64, handled string) {
	switch object := object.(type) {
	case *v1alpha1.ExamContent:
		return object.Status.Conditions, object.Status.ObservedGeneration, object.Status.LastHandledReconcileAt
	case *v1alpha1.RateTier:
		return object.Status.Conditions, object.Status.ObservedGeneration, object.Status.LastHandledReconcileAt
	case *v1alpha1.WebhookEndpoint:
		return object.Status.Conditions, object.Status.ObservedGeneration, object.Status.LastHandledReconcileAt
	}
	return nil, 0, ""
}

// conditions returns an object's conditions after checking that they make sense together. Every look of every test goes
// through it, so the states between are checked as much as the last.
func (in *installation) conditions(object client.Object) []metav1.Condition {
	in.t.Helper()
	conditions, observed, _ := statusOf(object)
	if len(conditions) > 0 {
		checkConditions(in.t, object.GetName(), object.GetGeneration(), observed, conditions)
	}
	return conditions
}

func checkConditions(t *testing.T, name string, generation, observed int64, conditions []metav1.Condition) {
	t.Helper()
	is := func(condition string, status metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(conditions, condition, status)
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		t.Errorf("%s: no Ready among %+v", name, conditions)
	case is(v1alpha1.ConditionReconciling, metav1.ConditionTrue) && is(v1alpha1.ConditionStalled, metav1.ConditionTrue):
		t.Errorf("%s: Reconciling and Stalled at once", name)
	case ready.Status == metav1.ConditionTrue && (is(v1alpha1.ConditionReconciling, metav1.ConditionTrue) || is(v1alpha1.ConditionStalled, metav1.ConditionTrue)):
		t.Errorf("%s: Ready, and Reconciling or Stalled: %+v", name, conditions)
	case observed == 0 || observed > generation:
		t.Errorf("%s: observedGeneration %d at generation %d", name, observed, generation)
	}
	for _, condition := range conditions {
		check.Equal(t, condition.ObservedGeneration, observed, "%s: generation that %s tells of", name, condition.Type)
		if condition.Reason == "" || condition.Message == "" || condition.LastTransitionTime.IsZero() {
			t.Errorf("%s: %s lacks a reason, a message or a time: %+v", name, condition.Type, condition)
		}
		transient := []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
		if slices.Contains(transient, condition.Type) && condition.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s is there although not True", name, condition.Type)
		}
		if ready != nil && ready.Status == metav1.ConditionTrue && condition.Status == metav1.ConditionFalse && condition.Type != v1alpha1.ConditionDelivering {
			t.Errorf("%s: Ready although %s is False", name, condition.Type)
		}
	}
}

func (in *installation) checkInvariants() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	for _, space := range in.spaces {
		exams, endpoints, tiers := &v1alpha1.ExamContentList{}, &v1alpha1.WebhookEndpointList{}, &v1alpha1.RateTierList{}
		for _, list := range []client.ObjectList{exams, endpoints, tiers} {
			if err := in.kube.List(ctx, list, client.InNamespace(space)); err != nil {
				in.t.Error(err)
			}
		}
		for i := range exams.Items {
			in.conditions(&exams.Items[i])
			in.checkServed(ctx, &exams.Items[i])
		}
		for i := range endpoints.Items {
			in.conditions(&endpoints.Items[i])
		}
		for i := range tiers.Items {
			in.conditions(&tiers.Items[i])
		}
	}
}

// checkServed holds an ExamContent that is Ready against the database: what is published there has, recomputed from its
// rows, the digest that the status tells, and is what the resource declares.
func (in *installation) checkServed(ctx context.Context, content *v1alpha1.ExamContent) {
	status := content.Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) || status.ObservedGeneration != content.Generation {
		return
	}
	audited, err := catalogtest.Audit(ctx, in.pool, content.Spec.ExamKey)
	if err != nil || audited.Withdrawn || audited.Revision != status.Revision || audited.Digest.String() != status.PublishedDigest {
		in.t.Errorf("%s is Ready, but published is %d %s, withdrawn %v, %v; its status says %d %s", content.Name,
			audited.Revision, audited.Digest, audited.Withdrawn, err, status.Revision, status.PublishedDigest)
	}
	if content.Spec.Revision != nil {
		return // it declares what it does not hold
	}
	exam, err := assemble.Assemble(ctx, content, &liveChunks{live: in.kube})
	if err != nil {
		in.t.Errorf("%s is Ready, but: %v", content.Name, err)
		return
	}
	changes, err := catalog.NewPublisher(in.pool, postgres.Sandbox).Diff(ctx, exam)
	if err != nil || len(changes) > 0 {
		in.t.Errorf("%s is Ready, but the database differs: %v, %v", content.Name, changes, err)
	}
}
