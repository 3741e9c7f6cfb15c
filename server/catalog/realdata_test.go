package catalog_test

import (
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
)

// TestRealPapersAreServedAsTheyWere publishes every real paper there is and compares what is served with the source,
// question for question.
func TestRealPapersAreServedAsTheyWere(t *testing.T) {
	t.Parallel()
	papers, questions := catalog.CheckServedAsDeclared(t, catalogtest.Exams(t))
	if papers != catalogtest.Papers || questions != catalogtest.Questions {
		t.Errorf("%d papers with %d questions were published, want %d with %d", papers, questions, catalogtest.Papers, catalogtest.Questions)
	}
}
