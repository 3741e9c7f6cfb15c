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
	// Standing tells what stands published, without its papers; ok is false where only Publish knows what to do.
	Standing(ctx context.Context, claim catalog.Claim, examKey string) (published catalog.Publication, ok bool, err error)
	// Trust identifies which verification seals count.
	Trust() string
}

// The conditions of an ExamContent beside Ready, Reconciling and Stalled, in the order in which they are decided.
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
	// lookWhole says of a look at what has not changed that it is to read everything all the same.
	lookWhole func() bool
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
		{"spare what has not changed", r.spare},
		{"read the questions", r.resolve},
		{"publish", r.publish},
	})
	return r.end(ctx, &s.scope, failure,
		func() bool { return equality.Semantic.DeepEqual(before, &content.Status) },
		func() runtime.ApplyConfiguration { return examContentStatus(content) })
}

// take reads a resource that no operator has had yet by adding the finalizer: the answer is the resource, and to ask for it
// as well would be a tenth of what publishing it costs the API server. The cache may be behind: what is patched is what
// it shows, or nothing. Without success nothing was done, and the resource is to be read.
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

// isNew says whether the finalizer is the first thing that a resource needs. It asks for no more than examSkeleton keeps.
func isNew(content *v1alpha1.ExamContent) bool {
	return content.DeletionTimestamp.IsZero() && !content.Spec.Suspend &&
		!controllerutil.ContainsFinalizer(content, v1alpha1.Finalizer)
}

func (r *ExamContentReconciler) claim(content *v1alpha1.ExamContent) catalog.Claim {
	return catalog.Claim{Cluster: r.cluster, Namespace: content.Namespace, Name: content.Name}
}

// examContentStatus is the whole status, as server-side apply wants it: what was applied before and is left out now is
// removed.
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
