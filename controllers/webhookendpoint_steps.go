package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/accounts"
	"examprep.dev/server/webhooks"
)

// backlogGrace is the age from which a pending delivery counts as backlog. Deliveries of a busy healthy endpoint end within
// seconds, and a status that counted them would be written at every check.
const backlogGrace = time.Minute

// delete removes the registered endpoint of a deleted resource, and its pending deliveries. The generated Secret goes by
// its owner reference.
func (r *WebhookEndpointReconciler) delete(ctx context.Context, s *endpointScope) (next, error) {
	if s.endpoint.DeletionTimestamp.IsZero() {
		return goOn, nil
	}
	if slices.Contains(s.endpoint.Finalizers, v1alpha1.Finalizer) {
		if err := r.endpoints.Delete(ctx, s.managedBy); err != nil {
			return stop, err
		}
		if err := r.dropFinalizer(ctx, s.endpoint); err != nil {
			return stop, err
		}
	}
	s.gone = true
	return stop, nil
}

func (r *WebhookEndpointReconciler) finalize(ctx context.Context, s *endpointScope) (next, error) {
	return goOn, r.ensureFinalizer(ctx, s.endpoint)
}

// resolve finds the account and the signing secret.
func (r *WebhookEndpointReconciler) resolve(ctx context.Context, s *endpointScope) (next, error) {
	name, err := r.findSecret(ctx, s)
	if err != nil {
		return stop, err
	}
	if account := s.endpoint.Spec.Account; account != "" {
		id, err := r.accounts.Ensure(ctx, account)
		if invalid, ok := errors.AsType[*accounts.InvalidError](err); ok {
			return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, &described{"spec.account: " + invalid.Detail, err})
		}
		if err != nil {
			return stop, err
		}
		s.account = uuid.NullUUID{UUID: id, Valid: true}
	}
	s.endpoint.Status.SigningSecret = name
	s.pass(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolved, s.resolved(name))
	return goOn, nil
}

// resolved returns the condition's message. A request to rotate a referenced Secret gets advice.
func (s *endpointScope) resolved(name string) string {
	text := "uses the signing secret in Secret " + name
	if s.endpoint.Spec.SigningSecretRef != nil && s.endpoint.Annotations[v1alpha1.RotateRequestAnnotation] != "" {
		text += "; " + v1alpha1.RotateRequestAnnotation + " works only for generated Secrets; to rotate this one, change its content"
	}
	return text
}

// register makes sure that the registered endpoint matches the declared one.
func (r *WebhookEndpointReconciler) register(ctx context.Context, s *endpointScope) (next, error) {
	spec := &s.endpoint.Spec
	want := webhooks.ManagedEndpoint{
		Owner: s.managedBy, URL: spec.URL, Description: spec.Description,
		Account: s.account, Secret: s.secret, Suspend: spec.Suspend,
	}
	for _, event := range spec.Events {
		want.Events = append(want.Events, webhooks.Kind(event))
	}
	registered, err := r.endpoints.Apply(ctx, want)
	if invalid, ok := errors.AsType[*webhooks.ValidationError](err); ok {
		return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, &described{"spec." + invalid.Error(), err})
	}
	if err != nil {
		return stop, err
	}
	s.endpoint.Status.ID, s.endpoint.Status.URL = registered.ID.String(), registered.URL
	if s.rotated != "" {
		s.endpoint.Status.LastHandledRotateAt = s.rotated
	}
	s.pass(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "valid")
	s.ready = "registered for " + whose(spec.Account)
	if spec.Suspend {
		s.ready = "registered and suspended: nothing is delivered"
	}
	return goOn, nil
}

func whose(account string) string {
	if account == "" {
		return "the events of every account"
	}
	return "the events of account " + account
}

// observe copies the delivery health to the status. Its messages contain nothing that changes at every check.
func (r *WebhookEndpointReconciler) observe(ctx context.Context, s *endpointScope) (next, error) {
	health, err := r.endpoints.Health(ctx, s.managedBy)
	if err != nil {
		return stop, err
	}
	status := &s.endpoint.Status
	status.FailingSince = timestamp(health.FailingSince)
	status.DisablesAt = timestamp(health.DisablesAt)
	status.LastStatus = int32(health.LastStatus)
	status.Backlog, status.OldestUndelivered = 0, nil
	if oldest := health.OldestUndelivered; oldest != nil && s.now().Sub(*oldest) >= backlogGrace {
		status.Backlog, status.OldestUndelivered = health.Backlog, timestamp(oldest)
	}
	switch {
	case s.endpoint.Spec.Suspend:
		s.decide(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: nothing is delivered")
	case health.Status == webhooks.StatusDisabled:
		s.standing = ""
		return stop, stalled(v1alpha1.ConditionDelivering, v1alpha1.ReasonDisabled, fmt.Errorf(
			"disabled: %s; fix the receiver, then set spec.suspend to true and back to false, or change spec.url", health.DisabledReason))
	case health.FailingSince != nil:
		s.fails(health)
	case health.LastSuccessAt == nil:
		s.decide(v1alpha1.ConditionDelivering, metav1.ConditionUnknown, v1alpha1.ReasonNoDeliveries, "no delivery has succeeded yet")
	default:
		s.pass(v1alpha1.ConditionDelivering, v1alpha1.ReasonDelivering, "deliveries succeed")
	}
	return stop, nil
}

// fails decides the condition of a failing endpoint. It warns the owner before the endpoint is disabled.
func (s *endpointScope) fails(health webhooks.Health) {
	reason, message := v1alpha1.ReasonFailing, failing(health.LastStatus)
	if disables := health.DisablesAt; disables != nil && disables.Sub(s.now()) < webhooks.DisableAfter/2 {
		reason = v1alpha1.ReasonFailingLong
		message += fmt.Sprintf("; the endpoint will be disabled by the next failure from %s on unless a delivery succeeds",
			disables.UTC().Format(time.RFC3339))
	}
	s.decide(v1alpha1.ConditionDelivering, metav1.ConditionFalse, reason, message)
}

func failing(lastStatus int) string {
	if lastStatus == 0 {
		return "deliveries fail: the receiver did not answer the last one"
	}
	return fmt.Sprintf("deliveries fail: the receiver answered the last one with HTTP status %d", lastStatus)
}

// timestamp truncates a database's time to seconds, the precision of a status. Otherwise every check would find a change.
func timestamp(at *time.Time) *metav1.Time {
	if at == nil {
		return nil
	}
	t := metav1.NewTime(at.Truncate(time.Second))
	return &t
}
