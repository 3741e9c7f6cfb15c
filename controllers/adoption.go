package controllers

import (
	"context"
	"fmt"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// mayAdopt reports whether spec.adopt moves the exam key. It does so once for each generation: otherwise two resources that
// both adopt would take the key from each other at each resync, and publish each time.
func (s *examScope) mayAdopt() bool {
	return s.content.Spec.Adopt && s.content.Status.AdoptedGeneration != s.content.Generation
}

// permitAdoption returns an error if the namespace has no right to take an exam key from owner. Otherwise write access to
// exams in one namespace would be enough to take any exam in the cluster.
//
// A key moves freely within its namespace, whose authors could have written the owner itself. A key that was left behind
// moves freely too, but not with spec.revision: a roll-back takes no key without an owner. The caller passes owner to the
// catalogue, so permission is checked again if another resource takes the key in between.
func (r *ExamContentReconciler) permitAdoption(ctx context.Context, s *examScope, owner catalog.Claim) error {
	if owner.Cluster == s.claim.Cluster && owner.Namespace == s.claim.Namespace {
		return nil
	}
	allowed, err := r.listedBy(ctx, s.claim.Namespace, v1alpha1.AdoptsAnnotation)
	if err != nil {
		return err
	}
	key := s.content.Spec.ExamKey
	if slices.ContainsFunc(allowed, func(pattern string) bool { return covers(pattern, key) }) {
		return nil
	}
	left, err := r.leftBehind(ctx, key, owner)
	if err != nil || left && s.content.Spec.Revision == nil {
		return err
	}
	s.forget()
	blocked := stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonAdoptionNotAllowed, fmt.Errorf(
		"spec.adopt: namespace %s must not adopt exam key %q of %s; ask its owner to delete that resource, or a cluster administrator to add the key to annotation %s of namespace %s (%s)",
		s.claim.Namespace, key, resourceOf(owner), v1alpha1.AdoptsAnnotation, s.claim.Namespace, whatItLists(allowed)))
	blocked.RetryAfter = conflictRetry // neither the annotation nor another cluster's resource is watched
	return blocked
}

// covers reports whether a line of the annotation matches a key. A malformed line matches no key.
func covers(pattern, key string) bool {
	match, err := path.Match(pattern, key)
	return err == nil && match
}

// leftBehind reports whether a claim's resource no longer exists in this cluster or now has another exam key. It reports
// false if the operator cannot read the resource: it belongs to another cluster, or to a namespace without read access.
func (r *ExamContentReconciler) leftBehind(ctx context.Context, examKey string, owner catalog.Claim) (bool, error) {
	if owner.Cluster != r.cluster {
		return false, nil
	}
	content := &v1alpha1.ExamContent{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, content)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the owner of exam key %s: %w", examKey, err)
	}
	return content.Spec.ExamKey != examKey, nil
}

// resourceOf names a claim's resource in conditions.
func resourceOf(claim catalog.Claim) string {
	return fmt.Sprintf("ExamContent %s/%s of cluster %s", claim.Namespace, claim.Name, claim.Cluster)
}
