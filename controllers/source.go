package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

const (
	// assembly is part of every source digest. Raise it with a change after which the same resource and ConfigMaps make
	// another exam, are valid no more, or are told of in another way: an upgraded operator then reads each exam again.
	assembly = 2
	// wholeLooks is of how many looks at an exam that has not changed, on average, one reads its questions all the same. It
	// bounds how long any change can go unseen that nobody told of, by a watch that fell silent or by a hand in the status:
	// with a look each ten minutes to half a day on average.
	wholeLooks = 64
)

// lookWhole says of one look in wholeLooks that it is to read everything.
func lookWhole() bool {
	return rand.IntN(wholeLooks) == 0
}

// version is which of its states a ConfigMap was in.
type version struct {
	uid             types.UID
	resourceVersion string
}

// sourceDigest stands for all that an exam is made from and judged by, given the ConfigMaps that the resource names, and for
// what its status lists of it.
func sourceDigest(content *v1alpha1.ExamContent, trust string, versions map[string]version) string {
	digest := sha256.New()
	fmt.Fprintf(digest, "%d %s %d %q\n", assembly, content.UID, content.Generation, trust)
	fmt.Fprintf(digest, "%d %d\n", content.Status.PaperCount, content.Status.QuestionCount)
	byID := func(a, b v1alpha1.PublishedPaper) int { return strings.Compare(a.PaperID, b.PaperID) }
	for _, paper := range slices.SortedFunc(slices.Values(content.Status.Papers), byID) {
		fmt.Fprintf(digest, "%+v\n", paper)
	}
	for _, name := range configMapsOf(content) {
		fmt.Fprintf(digest, "%s %s %s\n", name, versions[name].uid, versions[name].resourceVersion)
	}
	return "sha256:" + hex.EncodeToString(digest.Sum(nil))
}

// source is the digest of what this reconcile has read; empty where the next one must read again: the questions are not the
// declared ones, or not of one moment, or nobody tells when they change.
func (s *examScope) source() string {
	if s.content.Spec.Revision != nil || s.chunks.mixed || len(s.chunks.unlabelled) > 0 {
		return ""
	}
	return sourceDigest(s.content, s.trust, s.chunks.versions)
}

// spare ends the reconcile of a resource that is Ready, whose source is what it was and whose exam stands in the database as
// it was published: reading and judging its questions would come to the same. The versions of ConfigMaps are those that the
// cache has heard of; of what it has not, an event is still to come. Whoever asks for a reconcile has all of it done.
func (r *ExamContentReconciler) spare(ctx context.Context, s *examScope) (next, error) {
	if !s.settled() || r.lookWhole() {
		return goOn, nil
	}
	versions, err := r.heardOf(ctx, s.content)
	if err != nil || sourceDigest(s.content, r.publisher.Trust(), versions) != s.content.Status.SourceDigest {
		return goOn, err
	}
	began := r.now()
	standing, ok, err := r.publisher.Standing(ctx, s.claim, s.content.Spec.ExamKey)
	if err == nil && (!ok || !s.tellsOf(standing)) {
		return goOn, nil // the step that publishes is observed
	}
	r.timer.observe(r.now().Sub(began), false, err)
	if err != nil {
		return stop, err
	}
	s.keep()
	return stop, nil
}

// settled says that the status tells of the resource as it is, and of nothing that is still to be done.
func (s *examScope) settled() bool {
	status := &s.content.Status
	for _, condition := range append([]string{v1alpha1.ConditionReady}, s.owned...) {
		if !meta.IsStatusConditionTrue(status.Conditions, condition) {
			return false
		}
	}
	return status.SourceDigest != "" && s.content.Spec.Revision == nil && handled(s.content)
}

// heardOf returns the versions of a resource's ConfigMaps by the cache. One that is not there has none.
func (r *ExamContentReconciler) heardOf(ctx context.Context, content *v1alpha1.ExamContent) (map[string]version, error) {
	versions := map[string]version{}
	for _, name := range configMapsOf(content) {
		cached := &metav1.PartialObjectMetadata{}
		cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		err := r.client.Get(ctx, types.NamespacedName{Namespace: content.Namespace, Name: name}, cached)
		switch {
		case err == nil:
			versions[name] = version{cached.UID, cached.ResourceVersion}
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("look ConfigMap %s/%s up in the cache: %w", content.Namespace, name, err)
		}
	}
	return versions, nil
}

// tellsOf says whether the status is what would be written of a publication.
func (s *examScope) tellsOf(published catalog.Publication) bool {
	status := &s.content.Status
	repaired := ""
	if published.Repaired != nil {
		repaired = shorten(tellRepair(published.Repaired, published.Repaired.String()), maxConditionMessage)
	}
	told := ""
	if condition := meta.FindStatusCondition(s.before, v1alpha1.ConditionRepaired); condition != nil {
		told = condition.Message
	}
	return published.Revision == status.Revision && published.Digest.String() == status.PublishedDigest && repaired == told &&
		status.PublishedAt != nil && status.PublishedAt.Time.Equal(published.PublishedAt.Truncate(time.Second))
}

// keep decides every condition as it was.
func (s *examScope) keep() {
	for _, condition := range s.before {
		if slices.Contains(s.owned, condition.Type) || slices.Contains(s.occasional, condition.Type) {
			s.decide(condition.Type, condition.Status, condition.Reason, condition.Message)
		}
		if condition.Type == v1alpha1.ConditionReady {
			s.ready = condition.Message
		}
	}
}
