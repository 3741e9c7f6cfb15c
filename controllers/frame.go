package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"examprep.dev/api/v1alpha1"
	ac "examprep.dev/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// fieldOwner is the operator's name in managed fields and in events.
const fieldOwner = "examprep-operator"

const (
	// waitingRetry is the time until a missing or wrong reference is checked again although no change to it was seen: its
	// ConfigMap can lack the label.
	waitingRetry = 30 * time.Second
	// conflictRetry is the time until a claim that another resource holds is tried again. The owner can be in another cluster,
	// whose deletions this operator does not see.
	conflictRetry = time.Minute
	// statusTimeout is the default of Deps.StatusTimeout. The status is written even when the reconcile itself has run out
	// of time.
	statusTimeout = 15 * time.Second
	// handoverLook is the time until a resource from another shard is checked again. By then that shard's last reconcile has
	// ended, within reconcileTimeout and statusTimeout. It leaves room for the jitter of [scope.again].
	handoverLook = 4 * time.Minute
)

// frame is what the reconcilers have in common.
type frame struct {
	// client writes to the API server and reads the cache of skeletons, which serves indexes only.
	client client.Client
	// live reads from the API server.
	live     client.Reader
	recorder events.EventRecorder
	now      func() time.Time
	cluster  string
	shard    Shard
	status   time.Duration // limits the write of a status
	ready    *readiness
	spans    spans
}

// end closes every reconcile: conditions, then one status apply if anything changed, then the event. unchanged reports
// whether the whole status, conditions included, is as it was read.
func (f *frame) end(
	ctx context.Context, s *scope, failure error, unchanged func() bool, apply func() runtime.ApplyConfiguration,
) (ctrl.Result, error) {
	if apierrors.IsConflict(failure) || errors.Is(failure, context.Canceled) {
		return ctrl.Result{}, failure // another client wrote meanwhile, or the operator stops: nothing to report
	}
	result, failure := s.conclude(failure)
	if failure == nil {
		result = f.takeOver(s, result)
	}
	f.ready.note(s)
	if s.gone || unchanged() {
		return result, failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.status)
	defer cancel()
	err := f.applyStatus(ctx, s.object, apply())
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, err // changed meanwhile, perhaps handed to another shard: read it again
	}
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, failure // deleted meanwhile, after another client removed the finalizer
	}
	if err != nil {
		return ctrl.Result{}, errors.Join(failure, fmt.Errorf("apply status: %w", err))
	}
	s.tell(f.recorder)
	return result, failure
}

// applyStatus writes a status. Where several operators share the work, it is refused as a conflict if the resource was
// changed since it was read, because another operator can own it now.
func (f *frame) applyStatus(ctx context.Context, object client.Object, status runtime.ApplyConfiguration) error {
	if !f.shard.all() {
		switch status := status.(type) {
		case *ac.ExamContentApplyConfiguration:
			status.WithResourceVersion(object.GetResourceVersion())
		case *ac.WebhookEndpointApplyConfiguration:
			status.WithResourceVersion(object.GetResourceVersion())
		case *ac.RateTierApplyConfiguration:
			status.WithResourceVersion(object.GetResourceVersion())
		}
	}
	return f.client.Status().Apply(ctx, status, client.FieldOwner(fieldOwner), client.ForceOwnership)
}

// ensureFinalizer adds the finalizer before anything is done that a deletion must undo.
func (f *frame) ensureFinalizer(ctx context.Context, object client.Object) error {
	if controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	return f.patchFinalizer(ctx, object, controllerutil.AddFinalizer)
}

// dropFinalizer removes the finalizer, so that the resource can be deleted. It also succeeds if the finalizer or the resource
// is already gone.
func (f *frame) dropFinalizer(ctx context.Context, object client.Object) error {
	return client.IgnoreNotFound(f.patchFinalizer(ctx, object, controllerutil.RemoveFinalizer))
}

// patchFinalizer changes the list of finalizers of an object that was read.
func (f *frame) patchFinalizer(ctx context.Context, object client.Object, change func(client.Object, string) bool) error {
	gvk, err := f.client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("kind of the resource: %w", err)
	}
	patched := &metav1.PartialObjectMetadata{}
	patched.SetGroupVersionKind(gvk)
	if err := f.sendFinalizers(ctx, object, patched, change); err != nil {
		return err
	}
	object.SetResourceVersion(patched.GetResourceVersion())
	object.SetFinalizers(patched.GetFinalizers())
	return nil
}

// sendFinalizers sends only the list of finalizers, on condition that the object is still as it was read: the list is
// replaced as a whole, and the finalizer of another controller must not be lost. The response goes to patched, which must be
// empty and of the wanted kind.
func (f *frame) sendFinalizers(ctx context.Context, object, patched client.Object, change func(client.Object, string) bool) error {
	patched.SetNamespace(object.GetNamespace())
	patched.SetName(object.GetName())
	patched.SetUID(object.GetUID())
	patched.SetResourceVersion(object.GetResourceVersion())
	patched.SetFinalizers(object.GetFinalizers())
	base, ok := patched.DeepCopyObject().(client.Object)
	if !ok || !change(patched, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := f.client.Patch(ctx, patched, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch finalizers: %w", err)
	}
	return nil
}

// conditionsFor turns conditions into their apply configuration.
func conditionsFor(conditions []metav1.Condition) []*metav1ac.ConditionApplyConfiguration {
	applied := make([]*metav1ac.ConditionApplyConfiguration, len(conditions))
	for i, condition := range conditions {
		applied[i] = metav1ac.Condition().
			WithType(condition.Type).
			WithStatus(condition.Status).
			WithObservedGeneration(condition.ObservedGeneration).
			WithLastTransitionTime(condition.LastTransitionTime).
			WithReason(condition.Reason).
			WithMessage(condition.Message)
	}
	return applied
}
