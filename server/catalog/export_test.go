package catalog

import (
	"testing"

	"examprep.dev/server/postgres"
)

// CheckServedAsDeclared publishes exams, twice, and compares what is served with them. It is for the real papers, which
// only a package that imports this one can read.
func CheckServedAsDeclared(t *testing.T, exams []Exam) (papers, questions int) {
	t.Helper()
	b := newBench(t, postgres.Production)
	for _, exam := range exams {
		if err := Validate(exam); err != nil {
			t.Fatalf("%s: %v", exam.Key, err)
		}
		exam = seal(t, exam)
		published := b.publish(t, exam)
		checkServed(t.Context(), t, b.snapshot(t, SnapshotConfig{}), exam, published)
		papers += len(exam.Papers)
		for i := range exam.Papers {
			questions += len(exam.Papers[i].Questions)
		}
		if again := b.publish(t, exam); again.Changed {
			t.Errorf("%s changed without a change", exam.Key)
		}
	}
	return papers, questions
}
