package catalog_test

import (
	"errors"
	"slices"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestRollBackByAStrangerChangesNothing: a roll-back brings no sealed papers. It gives no free key to a resource that has published
// nothing, and brings no withdrawn exam back, also if an unsealed declaration took its key.
func TestRollBackByAStrangerChangesNothing(t *testing.T) {
	t.Parallel()
	stranger := catalog.Claim{Cluster: "test", Namespace: "elsewhere", Name: "stranger"}
	for name, withdrawn := range map[string]bool{"served": false, "withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, postgres.Production)
			exam := catalogtest.Seal(t, catalogtest.SampleExam())
			b.publish(t, exam)
			exam.Name = "Second name"
			last := b.publish(t, catalogtest.Seal(t, exam))
			check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, withdrawn))
			if withdrawn {
				unsealed := catalogtest.Clone(exam)
				unsealed.Papers[0].Verification = nil
				_, err := b.try(t, stranger, unsealed, 0, catalog.Options{})
				if _, ok := errors.AsType[*catalog.SealError](err); !ok {
					t.Fatalf("got %v, want a SealError", err)
				}
			}
			written := rowVersions(t, b)
			for _, revision := range []int64{1, 2} { // 2 has the content that is served
				for _, options := range []catalog.Options{{}, {Adopt: true}} {
					_, err := b.publisher.RollBack(t.Context(), stranger, exam.Key, revision, options)
					if missing, ok := errors.AsType[*catalog.RevisionNotFoundError](err); !ok || !missing.Unowned {
						t.Errorf("revision %d: got %v, want a RevisionNotFoundError", revision, err)
					}
				}
			}
			if !slices.Equal(rowVersions(t, b), written) {
				t.Error("the stranger wrote")
			}
			remembered := catalog.Remembered{Revision: last.Revision, PublishedAt: last.PublishedAt}
			back, err := b.publisher.RollBack(t.Context(), owner, exam.Key, 1, catalog.Options{Adopt: true, Remembered: remembered})
			check.NoError(t, err)
			check.Equal(t, back.Revision, 3, "revision of the roll-back by the one who published")
		})
	}
}

// TestRollBackIsDecidedUnderTheLock: the owner and the revision can go between a roll-back's read and its lock.
func TestRollBackIsDecidedUnderTheLock(t *testing.T) {
	t.Parallel()
	heir := catalog.Claim{Cluster: "test", Namespace: "elsewhere", Name: "heir"}
	for name, test := range map[string]struct {
		meddle  func(*testing.T, *bench, string)
		unowned bool
	}{
		"released": {func(t *testing.T, b *bench, key string) {
			t.Helper()
			if err := b.publisher.Release(t.Context(), owner, key, false); err != nil {
				t.Error(err)
			}
		}, true},
		"pruned": {func(t *testing.T, b *bench, key string) {
			t.Helper()
			testkit.Exec(t, b.pool, "DELETE FROM exam_revisions WHERE exam_key = $1 AND revision = 1", key)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, postgres.Production)
			exam := catalogtest.Seal(t, catalogtest.SampleExam())
			b.publish(t, exam)
			exam.Name = "Second name"
			b.publish(t, catalogtest.Seal(t, exam))
			b.beforeTheLock(func() { test.meddle(t, b, exam.Key) })
			_, err := b.publisher.RollBack(t.Context(), heir, exam.Key, 1, catalog.Options{Adopt: true})
			if missing, ok := errors.AsType[*catalog.RevisionNotFoundError](err); !ok || missing.Unowned != test.unowned {
				t.Errorf("got %v, want a RevisionNotFoundError, unowned %v", err, test.unowned)
			}
			check.Equal(t, testkit.Get[int64](t, b.pool, "SELECT revision FROM exams"), 2, "published revision")
			check.Equal(t, testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams WHERE claim_name = 'heir'"), 0, "keys of the heir")
		})
	}
}
