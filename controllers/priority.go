package controllers

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"examprep.dev/api/v1alpha1"
)

// unhandledFirst enqueues the resource of an event. When an operator starts, it reconciles existing resources at low
// priority, as with handler.EnqueueRequestForObject. A resource that changed while no operator ran has normal priority: it
// must not wait for ten thousand unchanged ones.
type unhandledFirst struct {
	handler.EnqueueRequestForObject
}

// Create implements handler.EventHandler.
func (h *unhandledFirst) Create(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if content, ok := e.Object.(*v1alpha1.ExamContent); ok && !handled(content) {
		e.IsInInitialList = false
	}
	h.EnqueueRequestForObject.Create(ctx, e, queue)
}

// handled reports whether the status belongs to the current declaration. It uses only the fields that examSkeleton keeps.
func handled(content *v1alpha1.ExamContent) bool {
	return content.DeletionTimestamp.IsZero() &&
		content.Status.ObservedGeneration == content.Generation &&
		content.Status.LastHandledReconcileAt == content.Annotations[v1alpha1.ReconcileRequestAnnotation]
}
