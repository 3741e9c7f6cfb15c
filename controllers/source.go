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
	// assembly is part of every source digest. Raise it if the same resource and ConfigMaps make another exam, are no longer
	// valid, or get other condition messages: an upgraded operator then reads each exam again.
	assembly = 4
	// On average one in fullCheckEvery checks of an unchanged exam reads its questions again. This limits how long a lost watch
	// event or an edited status stays unnoticed: to half a day on average, with a check every ten minutes.
	fullCheckEvery = 64
)

// fullCheck reports true for one in fullCheckEvery calls, at random.
func fullCheck() bool {
	return rand.IntN(fullCheckEvery) == 0
}

// version identifies a state of a ConfigMap.
type version struct {
	uid             types.UID
	resourceVersion string
}

// sourceDigest identifies the inputs of an exam (the resource, its ConfigMaps and the trusted signers) and the papers that
// the status lists.
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

// source returns the digest of this reconcile's inputs. It is empty if the next reconcile must read them again: with
// spec.revision, with a ConfigMap that changed between two reads, or with ConfigMaps that lack the label.
func (s *examScope) source() string {
	if s.content.Spec.Revision != nil || s.chunks.mixed || len(s.chunks.unlabelled) > 0 {
		return ""
	}
	return sourceDigest(s.content, s.trust, s.chunks.versions)
}

// skipUnchanged ends the reconcile if the resource is Ready, its source digest is unchanged, and PostgreSQL still has the
// published revision intact. The cache knows the versions of ConfigMaps; a newer version causes an event later. After a
// request for a reconcile, nothing is skipped.
func (r *ExamContentReconciler) skipUnchanged(ctx context.Context, s *examScope) (next, error) {
	if !s.settled() || r.fullCheck() {
		return goOn, nil
	}
	versions, err := r.cachedVersions(ctx, s.content)
	if err != nil || sourceDigest(s.content, r.publisher.Trust(), versions) != s.content.Status.SourceDigest {
		return goOn, err
	}
	began := r.now()
	standing, ok, err := r.publisher.Standing(ctx, s.claim, s.content.Spec.ExamKey)
	if err == nil && (!ok || !s.shows(standing)) {
		return goOn, nil // the step that publishes is observed
	}
	r.timer.observe(r.now().Sub(began), false, err)
	if err != nil {
		return stop, err
	}
	s.keep()
	return stop, nil
}

// settled reports whether the status is current, every condition is True, and a source digest is stored.
func (s *examScope) settled() bool {
	status := &s.content.Status
	for _, condition := range append([]string{v1alpha1.ConditionReady}, s.owned...) {
		if !meta.IsStatusConditionTrue(status.Conditions, condition) {
			return false
		}
	}
	return status.SourceDigest != "" && s.content.Spec.Revision == nil && handled(s.content)
}

// cachedVersions returns the versions of a resource's ConfigMaps in the cache, without those that do not exist.
func (r *ExamContentReconciler) cachedVersions(ctx context.Context, content *v1alpha1.ExamContent) (map[string]version, error) {
	versions := map[string]version{}
	for _, name := range configMapsOf(content) {
		cached := &metav1.PartialObjectMetadata{}
		cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		err := r.client.Get(ctx, types.NamespacedName{Namespace: content.Namespace, Name: name}, cached)
		switch {
		case err == nil:
			versions[name] = version{cached.UID, cached.ResourceVersion}
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read ConfigMap %s/%s from the cache: %w", content.Namespace, name, err)
		}
	}
	return versions, nil
}

// shows reports whether the status is the one that record would write for a publication.
func (s *examScope) shows(published catalog.Publication) bool {
	status := &s.content.Status
	repaired := ""
	if published.Repaired != nil {
		repaired = shorten(describeRepair(published.Repaired, published.Repaired.String()), maxConditionMessage)
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
