package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	"examprep.dev/api/v1alpha1"
	ac "examprep.dev/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"examprep.dev/server/webhooks"
)

// healthInterval is the default of Deps.HealthInterval. At this interval the cost of a thousand endpoints for the API server
// is negligible.
const healthInterval = time.Minute

// Endpoints stores the endpoints that resources declare; *webhooks.Managed implements it.
type Endpoints interface {
	// Apply is idempotent. A mistake in the declaration is a *webhooks.ValidationError.
	Apply(ctx context.Context, want webhooks.ManagedEndpoint) (webhooks.Endpoint, error)
	// Delete returns nil if the endpoint does not exist.
	Delete(ctx context.Context, owner string) error
	Health(ctx context.Context, owner string) (webhooks.Health, error)
}

// Accounts are the accounts whose events an endpoint can receive; *accounts.Administration implements it.
type Accounts interface {
	// Ensure returns the id of the account of that name, and creates it if there is none.
	Ensure(ctx context.Context, name string) (uuid.UUID, error)
}

// webhookEndpointConditions are the conditions besides Ready, Reconciling and Stalled, in the order in which they are decided.
func webhookEndpointConditions() []string {
	return []string{v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionAccepted, v1alpha1.ConditionDelivering}
}

// WebhookEndpointReconciler registers what WebhookEndpoints declare.
type WebhookEndpointReconciler struct {
	frame
	endpoints Endpoints
	accounts  Accounts
	// restrictAccounts limits the endpoints of each namespace to the accounts that its annotation lists.
	restrictAccounts bool
	healthInterval   time.Duration
}

// endpointScope is what one reconcile of one WebhookEndpoint knows.
type endpointScope struct {
	scope
	endpoint *v1alpha1.WebhookEndpoint
	// managedBy is how the endpoint's row names its resource.
	managedBy string
	// account and secret are known from the step that resolves them on. account is invalid for everyone's events.
	account uuid.NullUUID
	secret  string
	// rotated is the request for rotation that the secret answers; empty for none, and for a referenced Secret.
	rotated string
}

// +kubebuilder:rbac:groups=examprep.dev,resources=webhookendpoints,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=examprep.dev,resources=webhookendpoints/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Reconcile brings one registered endpoint in line with its resource.
func (r *WebhookEndpointReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	endpoint := &v1alpha1.WebhookEndpoint{}
	if found, err := r.read(ctx, req.NamespacedName, endpoint); !found {
		return ctrl.Result{}, err
	}
	s := &endpointScope{
		scope: newScope(endpoint, commonStatus{
			conditions:         &endpoint.Status.Conditions,
			observedGeneration: &endpoint.Status.ObservedGeneration,
			lastHandled:        &endpoint.Status.LastHandledReconcileAt,
			shard:              &endpoint.Status.Shard,
		}, r.now, "Register", webhookEndpointConditions()...),
		endpoint:  endpoint,
		managedBy: r.managedBy(endpoint),
	}
	s.interval = r.healthInterval
	s.alarms = []string{v1alpha1.ReasonFailingLong}
	if endpoint.Status.URL != "" {
		s.standing = "; deliveries continue to " + endpoint.Status.URL
	}
	before := endpoint.Status.DeepCopy()
	failure := runSteps(ctx, s, []step[*endpointScope]{
		{"delete the endpoint", r.delete},
		{"add the finalizer", r.finalize},
		{"check the namespace's right to the account", r.permit},
		{"resolve account and secret", r.resolve},
		{"register", r.register},
		{"observe the deliveries", r.observe},
	})
	return r.end(ctx, &s.scope, failure,
		func() bool { return equality.Semantic.DeepEqual(before, &endpoint.Status) },
		func() runtime.ApplyConfiguration { return webhookEndpointStatus(endpoint) })
}

func webhookEndpointStatus(endpoint *v1alpha1.WebhookEndpoint) runtime.ApplyConfiguration {
	from := &endpoint.Status
	status := ac.WebhookEndpointStatus().
		WithObservedGeneration(from.ObservedGeneration).
		WithConditions(conditionsFor(from.Conditions)...).
		WithBacklog(from.Backlog)
	if from.ID != "" {
		status.WithID(from.ID).WithURL(from.URL).WithSigningSecret(from.SigningSecret)
	}
	if from.FailingSince != nil {
		status.WithFailingSince(*from.FailingSince)
	}
	if from.DisablesAt != nil {
		status.WithDisablesAt(*from.DisablesAt)
	}
	if from.LastStatus != 0 {
		status.WithLastStatus(from.LastStatus)
	}
	if from.OldestUndelivered != nil {
		status.WithOldestUndelivered(*from.OldestUndelivered)
	}
	if from.LastHandledReconcileAt != "" {
		status.WithLastHandledReconcileAt(from.LastHandledReconcileAt)
	}
	if from.LastHandledRotateAt != "" {
		status.WithLastHandledRotateAt(from.LastHandledRotateAt)
	}
	if from.Shard != "" {
		status.WithShard(from.Shard)
	}
	return ac.WebhookEndpoint(endpoint.Name, endpoint.Namespace).WithUID(endpoint.UID).WithStatus(status)
}

func setupWebhookEndpoint(mgr ctrl.Manager, r *WebhookEndpointReconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("webhookendpoint").
		For(&v1alpha1.WebhookEndpoint{}, builder.WithPredicates(asked())).
		WithOptions(queueOptions()).
		Complete(r.spans.around("WebhookEndpoint", r))
	if err != nil {
		return fmt.Errorf("set up WebhookEndpoint controller: %w", err)
	}
	return nil
}
