package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/v1alpha1"
)

// permit refuses an endpoint that would be told of attempts which its namespace has no right to hear of; what was
// registered for it is removed. Without the restriction everything is permitted.
//
// An endpoint without an account that is told of exams alone is permitted everywhere: what is served is no secret.
func (r *WebhookEndpointReconciler) permit(ctx context.Context, s *endpointScope) (next, error) {
	spec := &s.endpoint.Spec
	if !r.restrictAccounts || spec.Account == "" && !slices.ContainsFunc(spec.Events, ofAttempts) {
		return goOn, nil
	}
	allowed, err := r.allowedAccounts(ctx, s.endpoint.Namespace)
	if err != nil {
		return stop, err
	}
	if slices.Contains(allowed, v1alpha1.AllAccounts) || spec.Account != "" && slices.Contains(allowed, spec.Account) {
		return goOn, nil
	}
	if err := r.endpoints.DeleteManaged(ctx, s.managedBy); err != nil {
		return stop, err
	}
	s.unregister()
	return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccountNotAllowed, refusal(s.endpoint, allowed))
}

func ofAttempts(kind v1alpha1.EventKind) bool {
	return strings.HasPrefix(string(kind), "mock_attempt.")
}

// allowedAccounts reads what the namespace is allowed, past the cache: namespaces are not watched, which would take a
// cluster-wide role.
func (r *WebhookEndpointReconciler) allowedAccounts(ctx context.Context, name string) ([]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.live.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	var accounts []string
	for line := range strings.Lines(namespace.Annotations[v1alpha1.WebhookAccountsAnnotation]) {
		if line = strings.TrimSpace(line); line != "" {
			accounts = append(accounts, line)
		}
	}
	return accounts, nil
}

// refusal says what may be put into spec.account, and who can change that.
func refusal(endpoint *v1alpha1.WebhookEndpoint, allowed []string) error {
	whose := "everyone's attempts"
	if endpoint.Spec.Account != "" {
		whose = fmt.Sprintf("the attempts of account %q", endpoint.Spec.Account)
	}
	instead := "it lists none"
	if len(allowed) > 0 {
		instead = "it lists " + strings.Join(allowed, ", ")
	}
	return fmt.Errorf("spec.account: namespace %s may not be told of %s: name an account that its annotation %s lists (%s), or ask whoever runs the platform to add one",
		endpoint.Namespace, whose, v1alpha1.WebhookAccountsAnnotation, instead)
}

// unregister removes from the status what is registered no more.
func (s *endpointScope) unregister() {
	status := &s.endpoint.Status
	status.ID, status.URL, status.SigningSecret, s.standing = "", "", "", ""
	status.FailingSince, status.DisablesAt, status.LastStatus = nil, nil, 0
	status.Backlog, status.OldestUndelivered = 0, nil
}
