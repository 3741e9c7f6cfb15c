package controllers

import (
	"testing"

	"examprep.dev/api/v1alpha1"
)

func TestSuspendKeepsWhatIsServed(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend, c.Spec.Name = true, "Renamed" })
	message := in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
	if want := "suspended: changes are not put into effect; revision 1 stays served"; message != want {
		t.Errorf("Ready says %q, want %q", message, want)
	}
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Sample exam" {
		t.Errorf("served while suspended: %v", overview)
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = false })
	in.ready(content)
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Renamed" {
		t.Errorf("served after resuming: %v", overview)
	}
}

func TestSuspendedResourceCanBeDeleted(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true })
	in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
	in.remove(content)
	in.gone(content)
}
