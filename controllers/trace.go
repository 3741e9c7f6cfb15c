package controllers

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// spans begins the traces of reconciles. A reconcile's PostgreSQL statements are children of its span. Spans name the resource
// and contain nothing of its spec, and no error texts, because these can quote it.
type spans struct {
	tracer trace.Tracer
	draw   func() bool
}

// around returns a reconciler with a span around each sampled reconcile. A reconcile that is not sampled only costs a random
// number.
func (s spans) around(kind string, inner reconcile.Reconciler) reconcile.Reconciler {
	if s.tracer == nil {
		return inner
	}
	return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		if s.draw != nil && !s.draw() {
			return inner.Reconcile(ctx, request)
		}
		ctx, span := s.tracer.Start(ctx, "reconcile "+kind, trace.WithAttributes(
			attribute.String("examprep.resource.kind", kind),
			attribute.String("examprep.resource.namespace", request.Namespace), attribute.String("examprep.resource.name", request.Name)))
		defer span.End()
		result, err := inner.Reconcile(ctx, request)
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		return result, err
	})
}
