package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"examprep.dev/api/v1alpha1"
	ac "examprep.dev/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// Publisher makes exams what is served; *catalog.Publisher is one.
type Publisher interface {
	// Publish is idempotent: publishing what is published already writes nothing.
	Publish(ctx context.Context, claim catalog.Claim, exam catalog.ValidExam, options catalog.Options) (catalog.Publication, error)
	// RollBack publishes an earlier revision again. It is idempotent too.
	RollBack(ctx context.Context, claim catalog.Claim, examKey string, revision int64, options catalog.Options) (catalog.Publication, error)
	// Release changes nothing unless claim is the owner.
	Release(ctx context.Context, claim catalog.Claim, examKey string, deleteContent bool) error
	// Standing returns the published revision without its papers. ok is false if only Publish can decide what to do.
	Standing(ctx context.Context, claim catalog.Claim, examKey string) (published catalog.Publication, ok bool, err error)
	// Trust identifies which verification seals count.
	Trust() string
}

// examContentConditions are the conditions besides Ready, Reconciling and Stalled, in the order in which they are decided.
func examContentConditions() []string {
	return []string{v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionAccepted, v1alpha1.ConditionPublished}
}

// ExamContentReconciler publishes what ExamContents declare.
type ExamContentReconciler struct {
	frame
	publisher Publisher
	timer     *publishTimer
	// restrictAdoption makes each namespace adopt only those keys of other namespaces that its annotation lists.
	restrictAdoption bool
	// fullCheck reports whether this reconcile reads the questions although nothing changed.
	fullCheck func() bool
}

// +kubebuilder:rbac:groups=examprep.dev,resources=examcontents,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=examprep.dev,resources=examcontents/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Reconcile brings what is served in line with one ExamContent.
func (r *ExamContentReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	content := &v1alpha1.ExamContent{}
	if !r.take(ctx, req.NamespacedName, content) {
		if found, err := r.read(ctx, req.NamespacedName, content); !found {
			return ctrl.Result{}, err
		}
	}
	s := newExamScope(content, r.claim(content), r.now, r.live)
	before := content.Status.DeepCopy()
	failure := runSteps(ctx, s, []step[*examScope]{
		{"release what is deleted", r.release},
		{"keep still while suspended", r.suspend},
		{"add the finalizer", r.finalize},
		{"skip an unchanged exam", r.skipUnchanged},
		{"read the questions", r.resolve},
		{"publish", r.publish},
	})
	return r.end(ctx, &s.scope, failure,
		func() bool { return equality.Semantic.DeepEqual(before, &content.Status) },
		func() runtime.ApplyConfiguration { return examContentStatus(content) })
}

// take adds the finalizer to a new resource and uses the response as the resource. That saves a GET, a tenth of the API
// server's cost of publishing. The patch fails if the cache is behind the API server. If take returns false, nothing was
// done, and the caller must read the resource.
func (r *ExamContentReconciler) take(ctx context.Context, name types.NamespacedName, content *v1alpha1.ExamContent) bool {
	cached := &v1alpha1.ExamContent{}
	if r.client.Get(ctx, name, cached) != nil || !isNew(cached) || !r.shard.selector().Matches(labels.Set(cached.Labels)) {
		return false
	}
	taken := &v1alpha1.ExamContent{}
	if r.sendFinalizers(ctx, cached, taken, controllerutil.AddFinalizer) != nil {
		return false
	}
	*content = *taken
	return true
}

// isNew reports whether a resource needs the finalizer first. It uses only the fields that examSkeleton keeps.
func isNew(content *v1alpha1.ExamContent) bool {
	return content.DeletionTimestamp.IsZero() && !content.Spec.Suspend &&
		!controllerutil.ContainsFinalizer(content, v1alpha1.Finalizer)
}

func (r *ExamContentReconciler) claim(content *v1alpha1.ExamContent) catalog.Claim {
	return catalog.Claim{Cluster: r.cluster, Namespace: content.Namespace, Name: content.Name}
}

// examContentStatus returns the whole status, because server-side apply removes the fields that this apply leaves out.
func examContentStatus(content *v1alpha1.ExamContent) runtime.ApplyConfiguration {
	from := &content.Status
	status := ac.ExamContentStatus().
		WithObservedGeneration(from.ObservedGeneration).
		WithConditions(conditionsFor(from.Conditions)...).
		WithPaperCount(from.PaperCount).
		WithQuestionCount(from.QuestionCount)
	if from.Revision > 0 {
		status.WithRevision(from.Revision).WithPublishedDigest(from.PublishedDigest)
	}
	if from.SourceDigest != "" {
		status.WithSourceDigest(from.SourceDigest)
	}
	if from.AdoptedGeneration > 0 {
		status.WithAdoptedGeneration(from.AdoptedGeneration)
	}
	if from.PublishedAt != nil {
		status.WithPublishedAt(*from.PublishedAt)
	}
	if from.LastHandledReconcileAt != "" {
		status.WithLastHandledReconcileAt(from.LastHandledReconcileAt)
	}
	if from.Shard != "" {
		status.WithShard(from.Shard)
	}
	for _, paper := range from.Papers {
		status.WithPapers(ac.PublishedPaper().
			WithPaperID(paper.PaperID).
			WithDigest(paper.Digest).
			WithQuestionCount(paper.QuestionCount).
			WithSealed(paper.Sealed))
	}
	return ac.ExamContent(content.Name, content.Namespace).WithUID(content.UID).WithStatus(status)
}
