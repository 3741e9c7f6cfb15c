package controllers

import (
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
)

func TestOperatorRecoversFromADatabaseThatWasAway(t *testing.T) {
	t.Parallel()
	in := operating(t)
	changed, deleted := sampleContent("changed", sampleKey(t)+"-1"), sampleContent("deleted", sampleKey(t)+"-2")
	deleted.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	in.create(changed)
	in.create(deleted)
	in.ready(changed)
	in.ready(deleted)

	restore := testkit.CutOff(t, in.pool)
	edit(in, changed, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.remove(deleted)
	message := in.until(changed, v1alpha1.ConditionReady, "False", v1alpha1.ReasonBackendUnavailable)
	if !strings.HasSuffix(message, "revision 1 stays served") || strings.Contains(message, "postgres") {
		t.Errorf("message %q: it must say what is served and nothing of the database", message)
	}
	in.until(changed, v1alpha1.ConditionReconciling, "True", v1alpha1.ReasonProgressing)
	in.until(deleted, v1alpha1.ConditionReady, "False", v1alpha1.ReasonBackendUnavailable)

	restore()
	in.ready(changed)
	in.gone(deleted)
	in.serves(changed.Spec.ExamKey, "Renamed", "now")
	if _, ok := in.served(deleted.Spec.ExamKey); ok {
		t.Error("the deleted exam is still served")
	}
}

func TestOperatorTakesUpWorkWhereItsPredecessorStopped(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	in.stop()
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.operate()
	in.ready(content)
	in.serves(content.Spec.ExamKey, "Renamed", "now")
}
