package controllers

import (
	"slices"
	"testing"

	"examprep.dev/api/v1alpha1"
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
	if want := "revision 1 is published: 1 papers, 2 questions"; message != want {
		t.Errorf("Ready says %q, want %q", message, want)
	}
	if !slices.Contains(content.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("finalizers: %v", content.Finalizers)
	}
	overview, ok := in.served(content.Spec.ExamKey)
	if !ok || overview["name"] != "Sample exam" || overview["duration_min"] != 90.0 {
		t.Errorf("served: %v", overview)
	}
	if got := in.events(content, 1); !slices.Equal(got, []string{"Normal Ready"}) {
		t.Errorf("events: %v", got)
	}
}

func TestChangedNameBecomesTheNextRevision(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	first := content.Status.PublishedDigest

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(content)
	if content.Status.Revision != 2 || content.Status.PublishedDigest == first {
		t.Errorf("status after the change: %+v", content.Status)
	}
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Renamed" {
		t.Errorf("served: %v", overview)
	}
	if got := in.events(content, 2); !slices.Equal(got, []string{"Normal Ready", "Normal Ready"}) {
		t.Errorf("events: %v, want one for each revision", got)
	}
}

func TestPinRollsBackAndItsRemovalRollsForward(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(content)

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
	in.ready(content)
	in.until(content, v1alpha1.ConditionPublished, "True", v1alpha1.ReasonPinned)
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Sample exam" {
		t.Errorf("served while pinned: %v", overview)
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(99)) })
	in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonRevisionNotFound)
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Sample exam" {
		t.Errorf("served with a pin that leads nowhere: %v", overview)
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = nil })
	in.ready(content)
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Renamed" {
		t.Errorf("served after the pin: %v", overview)
	}
}
