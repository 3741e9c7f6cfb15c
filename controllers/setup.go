package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"examprep.dev/api/v1alpha1"
)

// Deps are what the reconcilers call.
type Deps struct {
	// ClusterName distinguishes this cluster from others that publish into the same database. It is part of every claim. Empty:
	// "default".
	ClusterName string
	Publisher   Publisher
	Endpoints   Endpoints
	Accounts    Accounts
	Tiers       Tiers
	// RestrictWebhookAccounts limits endpoints to the accounts that their namespace's annotation examprep.dev/webhook-accounts
	// lists. Without it an endpoint can name any account, or none to receive the events of all accounts.
	RestrictWebhookAccounts bool
	// RestrictAdoption lets ExamContents adopt from resources of other namespaces only the exam keys that their namespace's
	// annotation examprep.dev/adopts lists; without it spec.adopt takes a key from any owner. The command sets it by default.
	RestrictAdoption bool
	// Shard is the same as in [Options].
	Shard Shard
	// Now is the clock of timestamps in statuses; nil: time.Now.
	Now func() time.Time
	// HealthInterval is how often an endpoint's registration is compared with the database and its delivery health is
	// brought up to date; 0: 1 min.
	HealthInterval time.Duration
	// StatusTimeout limits the write of a status; 0: 15 s. With shards it must be shorter than 30 s: a resource from
	// another shard is checked again when the former operator's last write must have ended.
	StatusTimeout time.Duration
	// Registerer takes the reconcilers' metrics; nil: none. One process sets up one operator.
	Registerer prometheus.Registerer
	// Tracer makes spans of reconciles; nil: no spans.
	Tracer trace.Tracer
	// Draw reports whether a reconcile gets a span; nil: each does.
	Draw func() bool
}

func (d Deps) clock() func() time.Time {
	if d.Now == nil {
		return time.Now
	}
	return d.Now
}

// withTimes returns d with the times of production where it has none.
func (d Deps) withTimes() Deps {
	d.HealthInterval, d.StatusTimeout = cmp.Or(d.HealthInterval, healthInterval), cmp.Or(d.StatusTimeout, statusTimeout)
	return d
}

// DefaultClusterName is the cluster's name in claims where none is set.
const DefaultClusterName = "default"

// The pause after the operator's own failures, such as an unavailable database, grows from minBackoff to maxBackoff.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Names of the indexes of the cache.
const (
	indexExamKey    = "spec.examKey"
	indexConfigMaps = "spec.papers.questionsFrom.configMapKeyRef.name"
	indexTierName   = "tier"
)

// Setup adds the reconcilers to mgr, which NewManager made.
func Setup(mgr ctrl.Manager, deps Deps) error {
	deps = deps.withTimes()
	base := frame{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder(fieldOwner),
		now:      deps.clock(),
		cluster:  deps.ClusterName,
		shard:    deps.Shard,
		status:   deps.StatusTimeout,
		ready:    newReadiness(deps.Registerer),
		spans:    spans{tracer: deps.Tracer, draw: deps.Draw},
	}
	if base.cluster == "" {
		base.cluster = DefaultClusterName
	}
	if err := addIndexes(mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return errors.Join(
		setupExamContent(mgr, &ExamContentReconciler{
			frame: base, publisher: deps.Publisher, timer: newPublishTimer(deps.Registerer),
			restrictAdoption: deps.RestrictAdoption, fullCheck: fullCheck,
		}),
		setupWebhookEndpoint(mgr, &WebhookEndpointReconciler{
			frame: base, endpoints: deps.Endpoints, accounts: deps.Accounts, restrictAccounts: deps.RestrictWebhookAccounts,
			healthInterval: deps.HealthInterval,
		}),
		setupRateTier(mgr, &RateTierReconciler{frame: base, tiers: deps.Tiers}),
	)
}

func addIndexes(indexer client.FieldIndexer) error {
	// The indexer keeps no context beyond the call.
	ctx := context.Background()
	err := errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ExamContent{}, indexExamKey, examKeyOf),
		indexer.IndexField(ctx, &v1alpha1.ExamContent{}, indexConfigMaps, configMapsOf),
		indexer.IndexField(ctx, &v1alpha1.RateTier{}, indexTierName, func(o client.Object) []string { return []string{o.GetName()} }),
	)
	if err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}

func examKeyOf(object client.Object) []string {
	content, ok := object.(*v1alpha1.ExamContent)
	if !ok {
		return nil
	}
	return []string{content.Spec.ExamKey}
}

func configMapsOf(object client.Object) []string {
	content, ok := object.(*v1alpha1.ExamContent)
	if !ok {
		return nil
	}
	var names []string
	for i := range content.Spec.Papers {
		for _, source := range content.Spec.Papers[i].QuestionsFrom {
			names = append(names, source.ConfigMapKeyRef.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func setupExamContent(mgr ctrl.Manager, r *ExamContentReconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("examcontent").
		Watches(&v1alpha1.ExamContent{}, &unhandledFirst{}, builder.WithPredicates(asked())).
		WatchesMetadata(&corev1.ConfigMap{},
			handler.EnqueueRequestsFromMapFunc(r.readersOf),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&v1alpha1.ExamContent{},
			handler.EnqueueRequestsFromMapFunc(r.rivalsOf),
			builder.WithPredicates(deletions())).
		WithOptions(queueOptions()).
		Complete(r.spans.around("ExamContent", r))
	if err != nil {
		return fmt.Errorf("set up ExamContent controller: %w", err)
	}
	return nil
}

// readersOf lists the ExamContents that refer to a ConfigMap.
func (r *ExamContentReconciler) readersOf(ctx context.Context, configMap client.Object) []reconcile.Request {
	return r.requests(ctx, &v1alpha1.ExamContentList{}, configMap,
		client.InNamespace(configMap.GetNamespace()), client.MatchingFields{indexConfigMaps: configMap.GetName()})
}

// rivalsOf lists the other ExamContents that want the exam key of one that is gone.
func (r *ExamContentReconciler) rivalsOf(ctx context.Context, gone client.Object) []reconcile.Request {
	key := examKeyOf(gone)
	if len(key) == 0 {
		return nil
	}
	return r.requests(ctx, &v1alpha1.ExamContentList{}, gone, client.MatchingFields{indexExamKey: key[0]})
}

// requests asks for a reconcile of every resource in the cache that matches, except the one that caused it. If the
// cache cannot be read, it only logs the error, because waiting resources also have a retry interval.
func (f *frame) requests(ctx context.Context, list client.ObjectList, cause client.Object, options ...client.ListOption) []reconcile.Request {
	if err := f.client.List(ctx, list, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the resources that an event concerns")
		return nil
	}
	var requests []reconcile.Request
	add := func(object client.Object) {
		if object.GetUID() != cause.GetUID() {
			requests = append(requests, reconcile.Request{
				NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
			})
		}
	}
	switch list := list.(type) {
	case *v1alpha1.ExamContentList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	case *v1alpha1.RateTierList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	}
	return requests
}

// asked lets through the events that need a reconcile: a new resource, a changed spec, a deletion (both raise the
// generation) and a new value of a request annotation. It ignores the operator's own writes, to status and finalizers. A
// resource that has left the cache is reconciled once more, because its readiness metric must go: it can have moved to
// another shard, or been deleted without its finalizer.
func asked() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				before[v1alpha1.ReconcileRequestAnnotation] != after[v1alpha1.ReconcileRequestAnnotation] ||
				before[v1alpha1.RotateRequestAnnotation] != after[v1alpha1.RotateRequestAnnotation]
		},
	}
}

// deletions lets only deletions through.
func deletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// queueOptions limit the pause after failures. The default pause grows to a quarter of an hour, and resources would wait that
// long after an outage of the database.
func queueOptions() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
	}
}
