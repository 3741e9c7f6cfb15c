package controllers

import (
	"slices"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
)

func TestExamContentIsPublishedAndReady(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	message := in.ready(content)

	status := content.Status
	if status.Revision != 1 || status.PaperCount != 1 || status.QuestionCount != 2 || status.PublishedAt == nil || status.PublishedDigest == "" {
		t.Errorf("status: %+v", status)
	}
	check.Equal(t, message, "revision 1 is published: 1 papers, 2 questions", "message of Ready")
	if !slices.Contains(content.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("finalizers: %v", content.Finalizers)
	}
	overview, ok := in.served(content.Spec.ExamKey)
	if !ok || overview["name"] != "Sample exam" || overview["duration_min"] != 90.0 {
		t.Errorf("served: %v", overview)
	}
	check.Slices(t, in.events(content, 1), []string{"Normal Ready"}, "events")
}

func TestChangedNameBecomesTheNextRevision(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	first := content.Status.PublishedDigest

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(content)
	if content.Status.Revision != 2 || content.Status.PublishedDigest == first {
		t.Errorf("status after the change: %+v", content.Status)
	}
	in.serves(content.Spec.ExamKey, "Renamed", "now")
	check.Slices(t, in.events(content, 2), []string{"Normal Ready", "Normal Ready"}, "events")
}

func TestPinRollsBackAndItsRemovalRollsForward(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(content)

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
	in.ready(content)
	in.until(content, v1alpha1.ConditionPublished, "True", v1alpha1.ReasonPinned)
	in.serves(content.Spec.ExamKey, "Sample exam", "while pinned")

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(99)) })
	in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonRevisionNotFound)
	in.serves(content.Spec.ExamKey, "Sample exam", "with a pin that leads nowhere")

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = nil })
	in.ready(content)
	in.serves(content.Spec.ExamKey, "Renamed", "after the pin")
}
