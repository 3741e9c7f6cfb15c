package manifest

import (
	"testing"
	"time"

	"examprep.dev/api/v1alpha1"
)

func TestFilesHaveTheSchemasDefaults(t *testing.T) {
	t.Parallel()
	d, err := schemaDefaults()
	if err != nil {
		t.Fatal(err)
	}
	spec := d.spec
	if spec.DeletionPolicy != v1alpha1.DeletionRetain || spec.ResyncInterval == nil || spec.ResyncInterval.Duration != 10*time.Minute {
		t.Errorf("spec: %+v", spec)
	}
	question, complaint := questionOf(&v1alpha1.Question{Answer: v1alpha1.Answer{Choice: "A"}}, d)
	if complaint != "" || question.Section != 1 {
		t.Errorf("question: %+v %s", question, complaint)
	}
	content := &Content{}
	if got := publishOptions(content, d).HistoryLimit; got != 11 {
		t.Errorf("%d revisions are kept by default, want 10 and the published one", got)
	}
	content.Spec.RevisionHistoryLimit = new(int32)
	if got := publishOptions(content, d).HistoryLimit; got != 1 {
		t.Errorf("%d revisions are kept, want the published one", got)
	}
}
