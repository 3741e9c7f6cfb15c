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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/webhooks"
)

const (
	// generatedSuffix and generatedKey name the Secret that the operator writes for an endpoint without a reference.
	generatedSuffix = v1alpha1.GeneratedSecretSuffix
	generatedKey    = "secret"
	// minSecretBytes is the minimum length of a signing secret in a referenced Secret.
	minSecretBytes = 24
)

// findSecret finds the endpoint's signing secret and returns the name of the Secret that holds it: the referenced one,
// else one that the operator generates and the resource owns. Failures that the owner can fix are blockedErrors.
func (r *WebhookEndpointReconciler) findSecret(ctx context.Context, s *endpointScope) (name string, err error) {
	if s.endpoint.Spec.SigningSecretRef != nil {
		s.secret, name, err = r.referencedSecret(ctx, s.endpoint)
		return name, err
	}
	secret, err := r.generatedSecret(ctx, s.endpoint)
	if err != nil {
		return "", err
	}
	s.secret, s.rotated = string(secret.Data[generatedKey]), secret.Annotations[v1alpha1.RotateHandledAnnotation]
	return secret.Name, nil
}

func (r *WebhookEndpointReconciler) referencedSecret(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint) (value, name string, err error) {
	ref := endpoint.Spec.SigningSecretRef
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
	// A line end that an editor adds is not part of the secret.
	if raw = bytes.TrimRight(raw, "\r\n"); len(raw) < minSecretBytes {
		return "", "", waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("spec.signingSecretRef: key %s of Secret %s/%s holds %d bytes: a signing secret has at least %d",
				key, endpoint.Namespace, ref.Name, len(raw), minSecretBytes))
	}
	return string(raw), ref.Name, nil
}

// generatedSecret reads the generated Secret. It writes the Secret if it does not exist or if a rotation is requested. It
// never changes a Secret of that name that the endpoint does not own.
func (r *WebhookEndpointReconciler) generatedSecret(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint) (*corev1.Secret, error) {
	if limit := v1alpha1.MaxEndpointName; len(endpoint.Name) > limit {
		return nil, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, fmt.Errorf(
			"metadata.name: must have at most %d characters without spec.signingSecretRef: the generated Secret is named after it", limit))
	}
	name := endpoint.Name + generatedSuffix
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: endpoint.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		secret, err = r.generate(ctx, endpoint, name)
	}
	if err != nil {
		return nil, fmt.Errorf("generated Secret %s/%s: %w", endpoint.Namespace, name, err)
	}
	if !metav1.IsControlledBy(secret, endpoint) {
		return nil, waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("Secret %s/%s exists but does not belong to this resource; name it in spec.signingSecretRef, or delete it to have one generated", //nolint:staticcheck // begins with a kind
				endpoint.Namespace, name))
	}
	if asked := endpoint.Annotations[v1alpha1.RotateRequestAnnotation]; asked != "" && asked != secret.Annotations[v1alpha1.RotateHandledAnnotation] {
		if secret.Immutable != nil && *secret.Immutable {
			return nil, waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
				fmt.Errorf("Secret %s/%s is immutable, so it cannot be rotated; delete it to have a new one generated", //nolint:staticcheck // begins with a kind
					endpoint.Namespace, name))
		}
		if err := r.rotate(ctx, endpoint, secret, asked); err != nil {
			return nil, fmt.Errorf("generated Secret %s/%s: %w", endpoint.Namespace, name, err)
		}
	}
	if len(secret.Data[generatedKey]) < minSecretBytes {
		return nil, waiting(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonRefInvalid,
			fmt.Errorf("key %s of Secret %s/%s was emptied; delete the Secret to have a new one generated", generatedKey, endpoint.Namespace, name))
	}
	return secret, nil
}

// rotate writes a new secret and the handled request to the Secret in one patch, so that each request causes one rotation
// even after a failure. The changed Secret then causes the rotation of the endpoint, during which both secrets sign.
func (r *WebhookEndpointReconciler) rotate(ctx context.Context, endpoint *v1alpha1.WebhookEndpoint, secret *corev1.Secret, asked string) error {
	base := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.RotateHandledAnnotation, asked)
	if secret.Data == nil {
		secret.Data = make(map[string][]byte, 1)
	}
	secret.Data[generatedKey] = []byte(webhooks.NewSecret())
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, secret, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	r.recorder.Eventf(endpoint, secret, corev1.EventTypeNormal, v1alpha1.ReasonSecretRotated, "Rotate",
		"rotated the signing secret in Secret %s; the old one also signs for 24 hours", secret.Name)
	return nil
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
	if asked := endpoint.Annotations[v1alpha1.RotateRequestAnnotation]; asked != "" {
		secret.Annotations = map[string]string{v1alpha1.RotateHandledAnnotation: asked}
	}
	// To block the endpoint's deletion has no use here and needs the right to update its finalizers.
	err := ctrl.SetControllerReference(endpoint, secret, r.client.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	if err != nil {
		return nil, fmt.Errorf("own it: %w", err)
	}
	if err := r.client.Create(ctx, secret, client.FieldOwner(fieldOwner)); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return secret, nil
}
