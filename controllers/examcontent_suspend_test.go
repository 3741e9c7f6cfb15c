package controllers

import (
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
)

func TestSuspendKeepsWhatIsServed(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend, c.Spec.Name = true, "Renamed" })
	message := in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
	check.Equal(t, message, "suspended: changes have no effect; revision 1 stays served", "message of Ready")
	in.serves(content.Spec.ExamKey, "Sample exam", "while suspended")

	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = false })
	in.ready(content)
	in.serves(content.Spec.ExamKey, "Renamed", "after resuming")
}

func TestSuspendedResourceCanBeDeleted(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true })
	in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
	in.delete(content)
}
