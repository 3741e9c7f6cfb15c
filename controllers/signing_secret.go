package controllers

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/webhooks"
)

const (
	// generatedSuffix and generatedKey name the Secret that the operator writes for an endpoint without a reference.
	generatedSuffix = "-signing-secret"
	generatedKey    = "secret"
	// minSecretBytes is the least that a secret of somebody's own must have.
	minSecretBytes = 24
)

// signingSecret returns the endpoint's signing secret and the name of the Secret that holds it: the referenced one, else
// one that the operator generates and the resource owns. Failures that the owner can mend are blockedErrors.
func (r *WebhookEndpointReconciler) signingSecret(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint) (value, name string, err error) {
	ref := endpoint.Spec.SigningSecretRef
	if ref == nil {
		return r.generatedSecret(ctx, endpoint)
	}
	key := ref.Key
	if key == "" {
		key = generatedKey
	}
	secret := &corev1.Secret{}
	err = r.live.Get(ctx, types.NamespacedName{Namespace: endpoint.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefNotFound,
			fmt.Errorf("spec.signingSecretRef: Secret %s/%s not found", endpoint.Namespace, ref.Name))
	case err != nil:
		return "", "", fmt.Errorf("read Secret %s/%s: %w", endpoint.Namespace, ref.Name, err)
	}
	raw, ok := secret.Data[key]
	if !ok {
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefNotFound,
			fmt.Errorf("spec.signingSecretRef: Secret %s/%s has no key %s", endpoint.Namespace, ref.Name, key))
	}
	// An editor's line end is nobody's secret.
	if raw = bytes.TrimRight(raw, "\r\n"); len(raw) < minSecretBytes {
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("spec.signingSecretRef: key %s of Secret %s/%s holds %d bytes: a signing secret has at least %d",
				key, endpoint.Namespace, ref.Name, len(raw), minSecretBytes))
	}
	return string(raw), ref.Name, nil
}

// generatedSecret reads the Secret that the operator wrote, or writes it. A Secret of that name that somebody else made
// is left alone.
func (r *WebhookEndpointReconciler) generatedSecret(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint) (value, name string, err error) {
	name = endpoint.Name + generatedSuffix
	secret := &corev1.Secret{}
	err = r.live.Get(ctx, types.NamespacedName{Namespace: endpoint.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		secret, err = r.generate(ctx, endpoint, name)
	}
	if err != nil {
		return "", "", fmt.Errorf("generated Secret %s/%s: %w", endpoint.Namespace, name, err)
	}
	if !metav1.IsControlledBy(secret, endpoint) {
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("Secret %s/%s is there but is not this resource's: name it in spec.signingSecretRef, or delete it to have one generated", //nolint:staticcheck // begins with a kind
				endpoint.Namespace, name))
	}
	if len(secret.Data[generatedKey]) < minSecretBytes {
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("key %s of Secret %s/%s was emptied: delete the Secret to have a new one generated", generatedKey, endpoint.Namespace, name))
	}
	return string(secret.Data[generatedKey]), name, nil
}

func (r *WebhookEndpointReconciler) generate(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: endpoint.Namespace,
			Name:      name,
			Labels:    map[string]string{"app.kubernetes.io/managed-by": fieldOwner},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{generatedKey: []byte(webhooks.NewSecret())},
	}
	if err := ctrl.SetControllerReference(endpoint, secret, r.client.Scheme()); err != nil {
		return nil, fmt.Errorf("own it: %w", err)
	}
	if err := r.client.Create(ctx, secret, client.FieldOwner(fieldOwner)); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return secret, nil
}
