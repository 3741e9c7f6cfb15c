package content

import (
	"testing"
	"time"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
)

func TestFilesHaveTheSchemasDefaults(t *testing.T) {
	t.Parallel()
	d, err := schemaDefaults()
	check.NoError(t, err)
	spec := d.spec
	if spec.DeletionPolicy != v1alpha1.DeletionRetain || spec.ResyncInterval == nil || spec.ResyncInterval.Duration != 10*time.Minute {
		t.Errorf("spec: %+v", spec)
	}
	content := &Content{}
	check.Equal(t, publishOptions(content, d).HistoryLimit, 11, "revisions kept by default, with the published one")
	content.Spec.RevisionHistoryLimit = new(int32)
	check.Equal(t, publishOptions(content, d).HistoryLimit, 1, "revisions kept, with the published one")
}
