package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/v1alpha1"
)

// permit refuses an endpoint for attempts of an account that its namespace has no right to, and removes the registered
// endpoint. Without the restriction everything is permitted.
//
// An endpoint without an account and with only exam events is permitted in every namespace, because published exams are not
// secret.
func (r *WebhookEndpointReconciler) permit(ctx context.Context, s *endpointScope) (next, error) {
	spec := &s.endpoint.Spec
	if !r.restrictAccounts || spec.Account == "" && !slices.ContainsFunc(spec.Events, ofAttempts) {
		return goOn, nil
	}
	allowed, err := r.listedBy(ctx, s.endpoint.Namespace, v1alpha1.WebhookAccountsAnnotation)
	if err != nil {
		return stop, err
	}
	named := func(line string) bool {
		return spec.Account != "" && norm.NFC.String(line) == norm.NFC.String(spec.Account)
	}
	if slices.Contains(allowed, v1alpha1.AllAccounts) || slices.ContainsFunc(allowed, named) {
		return goOn, nil
	}
	if err := r.endpoints.Delete(ctx, s.managedBy); err != nil {
		return stop, err
	}
	s.unregister()
	return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccountNotAllowed, refusal(s.endpoint, allowed))
}

func ofAttempts(kind v1alpha1.EventKind) bool {
	return strings.HasPrefix(string(kind), "mock_attempt.")
}

// listedBy returns the lines of a namespace's annotation. It reads from the API server, because to watch namespaces needs a
// cluster-wide role.
func (f *frame) listedBy(ctx context.Context, name, annotation string) ([]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := f.live.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	var listed []string
	for line := range strings.Lines(namespace.Annotations[annotation]) {
		if line = strings.TrimSpace(line); line != "" {
			listed = append(listed, line)
		}
	}
	return listed, nil
}

// refusal returns an error with the permitted values of spec.account and with the way to extend them.
func refusal(endpoint *v1alpha1.WebhookEndpoint, allowed []string) error {
	whose := "the attempts of all accounts"
	if endpoint.Spec.Account != "" {
		whose = fmt.Sprintf("the attempts of account %q", endpoint.Spec.Account)
	}
	return fmt.Errorf("spec.account: namespace %s must not receive %s; name an account that its annotation %s lists (%s), or ask a cluster administrator to add one",
		endpoint.Namespace, whose, v1alpha1.WebhookAccountsAnnotation, whatItLists(allowed))
}

func whatItLists(listed []string) string {
	if len(listed) == 0 {
		return "it lists none"
	}
	return "it lists " + strings.Join(listed, ", ")
}

// unregister clears the status fields about the registered endpoint.
func (s *endpointScope) unregister() {
	status := &s.endpoint.Status
	status.ID, status.URL, status.SigningSecret, s.standing = "", "", "", ""
	status.FailingSince, status.DisablesAt, status.LastStatus = nil, nil, 0
	status.Backlog, status.OldestUndelivered = 0, nil
}
