package catalog_test

import (
	"testing"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/race"
)

// TestRealPapersAreServedAsTheyWere publishes every real paper, twice, and compares what is served with the source, question
// for question.
func TestRealPapersAreServedAsTheyWere(t *testing.T) {
	t.Parallel()
	exams := catalogtest.Exams(t, catalogtest.SampledSets(t))
	b := newBench(t, postgres.Production)
	papers, questions := 0, 0
	for _, exam := range exams {
		exam = catalogtest.Seal(t, exam)
		published := b.publish(t, exam)
		catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), exam, published)
		papers += len(exam.Papers)
		for i := range exam.Papers {
			questions += len(exam.Papers[i].Questions)
		}
		if again := b.publish(t, exam); again.Changed {
			t.Errorf("%s changed without a change", exam.Key)
		}
	}
	if !race.Enabled && (papers != catalogtest.Papers || questions != catalogtest.Questions) {
		t.Errorf("%d papers with %d questions were published, want %d with %d", papers, questions, catalogtest.Papers, catalogtest.Questions)
	}
}
