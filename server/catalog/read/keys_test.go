package read_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestKeyIsPreparedOncePerLoad(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
	var prepared atomic.Int64
	keys := read.NewKeys(b.snapshot(t, read.SnapshotConfig{}), func(key *catalog.AnswerKey) (string, int) {
		prepared.Add(1)
		return fmt.Sprintf("%s %s %d", key.ExamKey, key.Digest, len(key.Keys)), 100
	})
	want := fmt.Sprintf("%s %s %d", exam.Key, digest, len(exam.Papers[0].Questions))
	before := b.statements.Load()
	var readers sync.WaitGroup
	for range 100 {
		readers.Go(func() {
			if got, err := keys.Get(t.Context(), exam.Key, digest); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	readers.Wait()
	if sent, n := b.statements.Load()-before, prepared.Load(); sent != 1 || n != 1 {
		t.Errorf("%d statements and %d preparations for 100 reads, want 1 and 1", sent, n)
	}
	var missing *catalog.NotFoundError
	if _, err := keys.Get(t.Context(), exam.Key, catalog.Digest{}); !errors.As(err, &missing) || missing.What != "revision" {
		t.Errorf("an unknown revision: %v", err)
	}
}

func TestKeysAreBoundedByTheBytesOfTheirPreparation(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	exam.Papers[1].Questions = exam.Papers[1].Questions[:2]
	digests := b.publish(t, exam).PaperDigests
	for name, test := range map[string]struct{ bytes, loads int }{
		"both fit": {400, 2}, "neither fits": {2000, 6},
	} {
		t.Run(name, func(t *testing.T) {
			loads := 0
			keys := read.NewKeys(b.snapshot(t, read.SnapshotConfig{KeyCacheBytes: 1000}), func(key *catalog.AnswerKey) (*catalog.AnswerKey, int) {
				loads++
				return key, test.bytes
			})
			for range 3 {
				for paperID, digest := range digests {
					if key, err := keys.Get(t.Context(), exam.Key, digest); err != nil || key.Digest != digest {
						t.Errorf("%s: %+v, %v", paperID, key, err)
					}
					keys.CleanUp()
				}
			}
			if loads != test.loads {
				t.Errorf("%d loads, want %d", loads, test.loads)
			}
		})
	}
}

func TestUnreadableKeyIsCountedUntilItsRepair(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"no questions":                  `{}`,
		"a key on which prepare panics": `{"questions":[{},{},{},{},{},{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Sandbox)
			exam := catalogtest.SampleExam()
			digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
			testkit.Exec(t, b.pool, "UPDATE paper_answer_keys SET answer_key = $1", damage)
			s := b.snapshot(t, read.SnapshotConfig{})
			keys := read.NewKeys(s, func(key *catalog.AnswerKey) (string, int) { return key.Keys[0].Letters[0], 1 })
			var unreadable *catalog.UnreadableError
			if _, err := keys.Get(t.Context(), exam.Key, digest); !errors.As(err, &unreadable) || unreadable.What != "answer key" {
				t.Errorf("got %v, want an UnreadableError of an answer key", err)
			}
			check.NoError(t, s.RefreshAll(t.Context()))
			if n := s.UnreadableExams(); n != 1 {
				t.Errorf("%d unreadable exams, want 1", n)
			}
			b.publish(t, exam)
			check.NoError(t, s.RefreshAll(t.Context()))
			if n := s.UnreadableExams(); n != 0 {
				t.Errorf("%d unreadable exams after the repair, want 0", n)
			}
			if letter, err := keys.Get(t.Context(), exam.Key, digest); err != nil || letter != "A" {
				t.Errorf("the repaired key begins with %q (%v)", letter, err)
			}
		})
	}
}

func TestEachLookUpCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
	registry := prometheus.NewPedanticRegistry()
	s := b.snapshot(t, read.SnapshotConfig{PaperCacheBytes: 1 << 20, KeyCacheBytes: 1 << 10, Registerer: registry})
	catalogtest.AnswerKeys(t, s)
	for range 3 {
		_, err := s.Revision(t.Context(), exam.Key, digest)
		check.NoError(t, err)
	}
	const want = `# HELP examprep_catalog_cache_hits_total Look-ups that found their entry.
# TYPE examprep_catalog_cache_hits_total counter
examprep_catalog_cache_hits_total{cache="answer_keys"} 0
examprep_catalog_cache_hits_total{cache="papers"} 2
# HELP examprep_catalog_cache_max_bytes Maximum size of the cache in bytes.
# TYPE examprep_catalog_cache_max_bytes gauge
examprep_catalog_cache_max_bytes{cache="answer_keys"} 1024
examprep_catalog_cache_max_bytes{cache="papers"} 1.048576e+06
# HELP examprep_catalog_cache_misses_total Look-ups that read PostgreSQL, or waited for one that did.
# TYPE examprep_catalog_cache_misses_total counter
examprep_catalog_cache_misses_total{cache="answer_keys"} 0
examprep_catalog_cache_misses_total{cache="papers"} 1
# HELP examprep_catalog_exams Served exams.
# TYPE examprep_catalog_exams gauge
examprep_catalog_exams 1
# HELP examprep_catalog_revisions Sum of the exams' revision numbers. Pods with different sums serve different revisions.
# TYPE examprep_catalog_revisions gauge
examprep_catalog_revisions 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "examprep_catalog_cache_hits_total", "examprep_catalog_cache_max_bytes",
		"examprep_catalog_cache_misses_total", "examprep_catalog_exams", "examprep_catalog_revisions"); err != nil {
		t.Error(err)
	}
}
