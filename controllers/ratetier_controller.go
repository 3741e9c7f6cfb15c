package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"examprep.dev/api/v1alpha1"
	ac "examprep.dev/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"examprep.dev/server/keys"
)

// tierResync is how often a tier is compared with the database although nothing changed.
const tierResync = 10 * time.Minute

// Tiers puts rate tiers into effect; *keys.Store does.
type Tiers interface {
	// ApplyTier is idempotent. *keys.ManagedTierError means that another resource declares a tier of that name.
	ApplyTier(ctx context.Context, spec keys.TierSpec) error
	// DeleteTier succeeds if the tier does not exist. *keys.ManagedTierError means that the tier belongs to another resource.
	DeleteTier(ctx context.Context, name, managedBy string) error
}

// RateTierReconciler puts into effect what RateTiers declare.
type RateTierReconciler struct {
	frame
	tiers Tiers
}

// tierScope is what one reconcile of one RateTier knows.
type tierScope struct {
	scope
	tier *v1alpha1.RateTier
	// managedBy is how the tier's row names its resource.
	managedBy string
}

// +kubebuilder:rbac:groups=examprep.dev,resources=ratetiers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=examprep.dev,resources=ratetiers/status,verbs=patch

// Reconcile brings one rate tier in line with its resource.
func (r *RateTierReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tier := &v1alpha1.RateTier{}
	if found, err := r.read(ctx, req.NamespacedName, tier); !found {
		return ctrl.Result{}, err
	}
	s := &tierScope{
		scope: newScope(tier, commonStatus{
			conditions:         &tier.Status.Conditions,
			observedGeneration: &tier.Status.ObservedGeneration,
			lastHandled:        &tier.Status.LastHandledReconcileAt,
			shard:              &tier.Status.Shard,
		}, r.now, "ApplyTier", v1alpha1.ConditionAccepted),
		tier:      tier,
		managedBy: r.managedBy(tier),
	}
	s.interval = tierResync
	before := tier.Status.DeepCopy()
	failure := runSteps(ctx, s, []step[*tierScope]{
		{"delete the tier", r.delete},
		{"add the finalizer", r.finalize},
		{"apply the tier", r.apply},
	})
	return r.end(ctx, &s.scope, failure,
		func() bool { return equality.Semantic.DeepEqual(before, &tier.Status) },
		func() runtime.ApplyConfiguration { return rateTierStatus(tier) })
}

// managedBy names a resource in rows that it manages.
func (f *frame) managedBy(object client.Object) string {
	return f.cluster + "/" + object.GetNamespace() + "/" + object.GetName()
}

func (r *RateTierReconciler) delete(ctx context.Context, s *tierScope) (next, error) {
	if s.tier.DeletionTimestamp.IsZero() {
		return goOn, nil
	}
	if slices.Contains(s.tier.Finalizers, v1alpha1.Finalizer) {
		err := r.tiers.DeleteTier(ctx, s.tier.Name, s.managedBy)
		// A tier of another resource must stay. An unconfirmed deletion reaches every gate later.
		if err != nil && !errorIs[*keys.ManagedTierError](err) && !errorIs[*keys.UnconfirmedError](err) {
			return stop, fmt.Errorf("delete tier %s: %w", s.tier.Name, err)
		}
		if err := r.dropFinalizer(ctx, s.tier); err != nil {
			return stop, err
		}
	}
	s.gone = true
	return stop, nil
}

func (r *RateTierReconciler) finalize(ctx context.Context, s *tierScope) (next, error) {
	return goOn, r.ensureFinalizer(ctx, s.tier)
}

func (r *RateTierReconciler) apply(ctx context.Context, s *tierScope) (next, error) {
	spec := keys.TierSpec{
		Name:        s.tier.Name,
		Requests:    int(s.tier.Spec.Requests),
		KeyPrefixes: s.tier.Spec.KeyPrefixes,
		Accounts:    s.tier.Spec.Accounts,
		ManagedBy:   s.managedBy,
	}
	if s.tier.Spec.Period != nil {
		spec.Period = s.tier.Spec.Period.Duration
	}
	if s.tier.Spec.Burst != nil {
		spec.Burst = int(*s.tier.Spec.Burst)
	}
	err := r.tiers.ApplyTier(ctx, spec)
	var managed *keys.ManagedTierError
	var invalid *keys.InvalidError
	switch {
	case errors.As(err, &managed):
		text := fmt.Sprintf("metadata.name: the tier %q belongs to RateTier %s: choose another name, or delete one of the two", managed.Tier, managed.Owner)
		blocked := stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonNameConflict, &described{text, err})
		blocked.RetryAfter = conflictRetry
		return stop, blocked
	case errors.As(err, &invalid):
		field := "spec."
		if invalid.Field == "name" {
			field = "metadata."
		}
		return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, &described{field + invalid.Error(), err})
	case err != nil:
		return stop, fmt.Errorf("apply tier %s: %w", spec.Name, err)
	}
	s.pass(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "valid, and the name is this resource's")
	s.ready = fmt.Sprintf("%d requests per %s for %d accounts and %d keys", spec.Requests, spec.Period, len(spec.Accounts), len(spec.KeyPrefixes))
	if spec.Name == keys.DefaultTier {
		s.ready = fmt.Sprintf("%d requests per %s for everyone without another tier", spec.Requests, spec.Period)
	}
	return stop, nil
}

func rateTierStatus(tier *v1alpha1.RateTier) runtime.ApplyConfiguration {
	from := &tier.Status
	status := ac.RateTierStatus().
		WithObservedGeneration(from.ObservedGeneration).
		WithConditions(conditionsFor(from.Conditions)...)
	if from.LastHandledReconcileAt != "" {
		status.WithLastHandledReconcileAt(from.LastHandledReconcileAt)
	}
	if from.Shard != "" {
		status.WithShard(from.Shard)
	}
	return ac.RateTier(tier.Name, tier.Namespace).WithUID(tier.UID).WithStatus(status)
}

func setupRateTier(mgr ctrl.Manager, r *RateTierReconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("ratetier").
		For(&v1alpha1.RateTier{}, builder.WithPredicates(asked())).
		Watches(&v1alpha1.RateTier{},
			handler.EnqueueRequestsFromMapFunc(r.rivalsOf),
			builder.WithPredicates(deletions())).
		WithOptions(queueOptions()).
		Complete(r.spans.around("RateTier", r))
	if err != nil {
		return fmt.Errorf("set up RateTier controller: %w", err)
	}
	return nil
}

// rivalsOf lists the RateTiers of other namespaces that want the name of one that is gone.
func (r *RateTierReconciler) rivalsOf(ctx context.Context, gone client.Object) []reconcile.Request {
	return r.requests(ctx, &v1alpha1.RateTierList{}, gone, client.MatchingFields{indexTierName: gone.GetName()})
}
