package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
)

// examScope is what one reconcile of one ExamContent knows.
type examScope struct {
	scope
	content *v1alpha1.ExamContent
	claim   catalog.Claim
	chunks  *liveChunks
	// exam is the declared exam, once the step "read the questions" has read it. It is zero with spec.revision: a roll-back must
	// work while the declared content is broken.
	exam catalog.ValidExam
	// trust is which seals counted before the questions were read.
	trust string
}

func newExamScope(content *v1alpha1.ExamContent, claim catalog.Claim, now func() time.Time, live client.Reader) *examScope {
	s := &examScope{
		scope: newScope(content, commonStatus{
			conditions:         &content.Status.Conditions,
			observedGeneration: &content.Status.ObservedGeneration,
			lastHandled:        &content.Status.LastHandledReconcileAt,
			shard:              &content.Status.Shard,
		}, now, "Publish", examContentConditions()...),
		content: content,
		claim:   claim,
		chunks:  &liveChunks{live: live},
	}
	s.occasional = []string{v1alpha1.ConditionRepaired}
	if interval := content.Spec.ResyncInterval; interval != nil {
		s.interval = interval.Duration
	}
	if revision := content.Status.Revision; revision > 0 {
		s.standing = fmt.Sprintf("; revision %d stays served", revision)
	}
	return s
}

// release gives up what a deleted resource owns, by its deletion policy, and lets the resource go. It needs neither the
// resource's ConfigMaps nor its validity.
func (r *ExamContentReconciler) release(ctx context.Context, s *examScope) (next, error) {
	if s.content.DeletionTimestamp.IsZero() {
		return goOn, nil
	}
	if slices.Contains(s.content.Finalizers, v1alpha1.Finalizer) {
		withdraw := s.content.Spec.DeletionPolicy == v1alpha1.DeletionDelete
		if err := r.publisher.Release(ctx, s.claim, s.content.Spec.ExamKey, withdraw); err != nil {
			return stop, fmt.Errorf("release exam key %s: %w", s.content.Spec.ExamKey, err)
		}
		if err := r.dropFinalizer(ctx, s.content); err != nil {
			return stop, err
		}
	}
	s.gone = true
	return stop, nil
}

func (r *ExamContentReconciler) suspend(_ context.Context, s *examScope) (next, error) {
	s.suspended = s.content.Spec.Suspend
	return next(!s.suspended), nil
}

func (r *ExamContentReconciler) finalize(ctx context.Context, s *examScope) (next, error) {
	return goOn, r.ensureFinalizer(ctx, s.content)
}

// resolve reads the questions, those in chunks too, and converts the resource to the domain.
func (r *ExamContentReconciler) resolve(ctx context.Context, s *examScope) (next, error) {
	if s.content.Spec.Revision != nil {
		s.pass(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonPinned, "spec.revision holds an earlier revision: references are not read")
		return goOn, nil
	}
	s.trust = r.publisher.Trust()
	exam, err := assemble.Assemble(ctx, s.content, s.chunks)
	if err != nil && !errorIs[*catalog.ValidationError](err) {
		return stop, explainReference(err)
	}
	s.pass(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolved, s.resolved())
	if err != nil {
		return stop, stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, err)
	}
	s.exam = exam
	return goOn, nil
}

// resolved returns the condition's message, with a warning if changes to a ConfigMap would not be noticed.
func (s *examScope) resolved() string {
	if len(s.chunks.unlabelled) == 0 {
		return "all references resolved"
	}
	return fmt.Sprintf("all references resolved; ConfigMap %s lacks label %s=true, so its changes are noticed only at the next resync (every %s)",
		strings.Join(s.chunks.unlabelled, ", "), v1alpha1.ContentLabel, s.interval)
}

// explainReference distinguishes references that can become valid without a change to the resource, when the rest of a
// commit is applied, from those that the owner must fix. If one must be fixed, the resource is stalled.
func explainReference(err error) error {
	all := assemble.Errors{err}
	if several, ok := errors.AsType[assemble.Errors](err); ok {
		all = several
	}
	reason, hopeless := v1alpha1.ReasonRefNotFound, false
	for _, single := range all {
		omitted, more := errors.AsType[*assemble.OmittedError](single)
		switch {
		case more && omitted.Invalid > 0:
			reason, hopeless = v1alpha1.ReasonRefInvalid, true
		case more && omitted.Digests > 0:
			reason = v1alpha1.ReasonRefInvalid
		case more:
		case errorIs[*assemble.ChunkMissingError](single):
		case errorIs[*assemble.ChunkDigestError](single):
			reason = v1alpha1.ReasonRefInvalid
		case errorIs[*assemble.RefError](single):
			reason, hopeless = v1alpha1.ReasonRefInvalid, true
		default:
			return err // the API server did not answer
		}
	}
	if hopeless {
		return stalled(v1alpha1.ConditionResolvedRefs, reason, err)
	}
	return waiting(v1alpha1.ConditionResolvedRefs, reason, err)
}

// publish makes sure that the exam is served.
func (r *ExamContentReconciler) publish(ctx context.Context, s *examScope) (next, error) {
	options := catalog.Options{Adopt: s.mayAdopt() && !r.restrictAdoption}
	if limit := s.content.Spec.RevisionHistoryLimit; limit != nil {
		options.HistoryLimit = 1 + int(*limit) // the catalogue counts the published revision too
	}
	if at := s.content.Status.PublishedAt; at != nil {
		options.Remembered = catalog.Remembered{Revision: s.content.Status.Revision, PublishedAt: at.Time}
	}
	began := r.now()
	published, err := r.publishAs(ctx, s, options)
	r.timer.observe(r.now().Sub(began), published.Changed, err)
	if asBlocked(err) != nil {
		return stop, err
	}
	if err != nil {
		return stop, s.explainRefusal(err)
	}
	s.pass(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "valid, and exam key "+s.content.Spec.ExamKey+" is this resource's")
	if s.content.Spec.Adopt {
		s.content.Status.AdoptedGeneration = s.content.Generation
	}
	s.record(published)
	return stop, nil
}

// publishAs publishes, and asks for permission first if the key must be adopted.
func (r *ExamContentReconciler) publishAs(ctx context.Context, s *examScope, options catalog.Options) (catalog.Publication, error) {
	published, err := r.send(ctx, s, options)
	if conflict, ok := errors.AsType[*catalog.ClaimConflictError](err); ok && s.mayAdopt() && r.restrictAdoption {
		if err := r.permitAdoption(ctx, s, conflict.Owner); err != nil {
			return catalog.Publication{}, err
		}
		options.AdoptFrom = &conflict.Owner
		published, err = r.send(ctx, s, options)
	}
	return published, err
}

// send publishes the declared exam, or the revision that spec.revision pins.
func (r *ExamContentReconciler) send(ctx context.Context, s *examScope, options catalog.Options) (catalog.Publication, error) {
	if pin := s.content.Spec.Revision; pin != nil {
		return r.publisher.RollBack(ctx, s.claim, s.content.Spec.ExamKey, *pin, options)
	}
	return r.publisher.Publish(ctx, s.claim, s.exam, options)
}

// explainRefusal names the spec's field for each of the catalogue's typed errors and passes others on.
func (s *examScope) explainRefusal(err error) error {
	var (
		conflict *catalog.ClaimConflictError
		seal     *catalog.SealError
		pin      *catalog.RevisionNotFoundError
		damaged  *catalog.DamagedError
	)
	switch {
	case errors.As(err, &conflict):
		help := "delete one of the two, or set spec.adopt to take it over"
		if s.content.Spec.Adopt && !s.mayAdopt() {
			help = "delete one of the two; spec.adopt moves the key once for each change of spec, and did so before that resource took the key"
		}
		text := fmt.Sprintf("spec.examKey: %q belongs to %s: %s", conflict.ExamKey, resourceOf(conflict.Owner), help)
		blocked := stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonExamKeyConflict, &described{text, err})
		blocked.RetryAfter = conflictRetry
		s.forget()
		return blocked
	case errors.As(err, &seal):
		text := "valid, and exam key " + s.content.Spec.ExamKey + " is this resource's"
		if seal.Owner != nil {
			text = "valid; exam key " + s.content.Spec.ExamKey + " is taken over from " + resourceOf(*seal.Owner) + " when the papers are sealed"
			s.forget()
		}
		if seal.Unclaimed {
			text = "valid; exam key " + s.content.Spec.ExamKey + " belongs to no resource and its exam is served: this resource takes it over when the papers are sealed"
			s.forget()
		}
		s.pass(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, text)
		return s.explainSeal(seal, err)
	case errors.As(err, &pin):
		text := fmt.Sprintf("spec.revision: revision %d does not exist or was pruned; choose a retained revision or remove spec.revision", pin.Revision)
		if pin.Unowned {
			text = fmt.Sprintf("spec.revision: revision %d was published by another resource; remove spec.revision until this resource has published its exam", pin.Revision)
		}
		return stalled(v1alpha1.ConditionPublished, v1alpha1.ReasonRevisionNotFound, &described{text, err})
	case errors.As(err, &damaged):
		return stalled(v1alpha1.ConditionPublished, v1alpha1.ReasonDrifted, &described{
			fmt.Sprintf("spec.revision: %v; choose another revision, or remove spec.revision to publish the declared exam", damaged), err,
		})
	default:
		return err
	}
}

// explainSeal distinguishes a seal that does not match the paper from a seal without a trusted signature. The latter is
// checked again soon, because the operator's trusted signers can change while the resource stays the same.
func (s *examScope) explainSeal(seal *catalog.SealError, err error) error {
	if seal.Untrusted == nil {
		field := fmt.Sprintf("spec.papers[%d].verification", s.paperIndex(seal.PaperID))
		return stalled(v1alpha1.ConditionPublished, v1alpha1.ReasonSealMismatch, &described{fmt.Sprintf("%s: %v", field, seal), err})
	}
	field := fmt.Sprintf("spec.papers[%d].verification.signature", s.paperIndex(seal.PaperID))
	if s.content.Spec.Revision != nil {
		field = "spec.revision"
	}
	blocked := stalled(v1alpha1.ConditionPublished, v1alpha1.ReasonSealUntrusted, &described{fmt.Sprintf("%s: %v", field, seal), err})
	blocked.RetryAfter = conflictRetry
	return blocked
}

// paperIndex returns the index of a paper in the spec, or -1.
func (s *examScope) paperIndex(paperID string) int {
	return slices.IndexFunc(s.content.Spec.Papers, func(p v1alpha1.Paper) bool { return p.PaperID == paperID })
}

// forget clears the status fields about the published exam, which belongs to another owner.
func (s *examScope) forget() {
	s.standing = ""
	status := &s.content.Status
	status.Revision, status.PublishedDigest, status.SourceDigest, status.PublishedAt = 0, "", "", nil
	status.Papers, status.PaperCount, status.QuestionCount = nil, 0, 0
}

// record sets the status and the conditions from a publication.
func (s *examScope) record(published catalog.Publication) {
	status := &s.content.Status
	at := metav1.NewTime(published.PublishedAt.Truncate(time.Second))
	status.PublishedAt = &at
	status.Revision, status.PublishedDigest = published.Revision, published.Digest.String()
	status.Papers = s.publishedPapers(published)
	status.PaperCount, status.QuestionCount = int32(len(status.Papers)), 0
	for _, paper := range status.Papers {
		status.QuestionCount += paper.QuestionCount
	}
	status.SourceDigest = s.source() // of the papers, too
	reason, text := v1alpha1.ReasonPublished, fmt.Sprintf("revision %d is published: %d papers, %d questions",
		status.Revision, status.PaperCount, status.QuestionCount)
	if pin := s.content.Spec.Revision; pin != nil {
		reason, text = v1alpha1.ReasonPinned, fmt.Sprintf("revision %d is published with the content of revision %d, as spec.revision asks: %d papers, %d questions",
			status.Revision, *pin, status.PaperCount, status.QuestionCount)
	}
	s.pass(v1alpha1.ConditionPublished, reason, text)
	if repaired := published.Repaired; repaired != nil {
		s.pass(v1alpha1.ConditionRepaired, v1alpha1.ReasonDriftRepaired, describeRepair(repaired, repaired.String()))
		s.notes[v1alpha1.ConditionRepaired] = describeRepair(repaired, repaired.Places())
	}
	s.ready = text
	s.action = fmt.Sprintf("PublishRevision%d", status.Revision)
}

// describeRepair returns when and how the published content was restored.
func describeRepair(repaired *catalog.Repair, changes string) string {
	return fmt.Sprintf("%s: published content had been changed in the database and was restored: %s",
		repaired.At.UTC().Format(time.RFC3339), changes)
}

// publishedPapers lists the published papers in the spec's order; those that only a pinned revision has follow by ID.
func (s *examScope) publishedPapers(published catalog.Publication) []v1alpha1.PublishedPaper {
	papers := make([]v1alpha1.PublishedPaper, 0, len(published.PaperDigests))
	for id, digest := range published.PaperDigests {
		papers = append(papers, v1alpha1.PublishedPaper{
			PaperID:       id,
			Digest:        digest.String(),
			QuestionCount: int32(published.QuestionCounts[id]),
			Sealed:        !slices.Contains(published.Unsealed, id),
		})
	}
	order := func(p v1alpha1.PublishedPaper) int {
		if i := s.paperIndex(p.PaperID); i >= 0 {
			return i
		}
		return len(s.content.Spec.Papers)
	}
	slices.SortFunc(papers, func(a, b v1alpha1.PublishedPaper) int {
		if d := order(a) - order(b); d != 0 {
			return d
		}
		return strings.Compare(a.PaperID, b.PaperID)
	})
	return papers
}
