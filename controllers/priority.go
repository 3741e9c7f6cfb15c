package controllers

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"examprep.dev/api/v1alpha1"
)

// unhandledFirst enqueues what an event is about. What an operator finds when it starts is a refresh and comes last, as
// with handler.EnqueueRequestForObject, unless nobody has acted on it yet: a resource that was made or changed while no
// operator ran must not wait until ten thousand others were compared with what is published.
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

// handled says whether a status tells of what is declared now. It asks for no more than examSkeleton keeps.
func handled(content *v1alpha1.ExamContent) bool {
	return content.DeletionTimestamp.IsZero() &&
		content.Status.ObservedGeneration == content.Generation &&
		content.Status.LastHandledReconcileAt == content.Annotations[v1alpha1.ReconcileRequestAnnotation]
}
