package read

import (
	"context"
	"fmt"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// Keys is a cache of answer keys in the form that their reader needs. All methods are safe for concurrent use.
type Keys[K any] struct{ *cache[K] }

// NewKeys returns a cache of at most SnapshotConfig.KeyCacheBytes for the answer keys of s. prepare is called once for each
// load, and can keep its argument; it returns the cached value and its approximate size in bytes. A key on which prepare
// panics is unreadable. The cache has the label answer_keys in the metrics examprep_catalog_cache_*, and its unreadable keys
// count for s. A Snapshot with a Registerer can have one Keys.
func NewKeys[K any](s *Snapshot, prepare func(*catalog.AnswerKey) (key K, bytes int)) *Keys[K] {
	load := func(ctx context.Context, q *catalogdb.Queries, id revisionID) (entry sized[K], err error) {
		row, err := q.PaperAnswerKey(ctx, catalogdb.PaperAnswerKeyParams{ExamKey: id.examKey, Digest: id.digest[:]})
		if err != nil {
			return entry, err
		}
		key := &catalog.AnswerKey{ExamKey: id.examKey, Digest: id.digest}
		if err := decodeStored(row.AnswerKey, key); err != nil {
			return entry, err
		}
		if err := checkCount(len(key.Keys), row.QuestionCount); err != nil {
			return entry, err
		}
		defer func() {
			if cause := recover(); cause != nil { // it would end the process
				err = fmt.Errorf("%w: panic: %v", errUndecodable, cause)
			}
		}()
		entry.value, entry.bytes = prepare(key)
		return entry, nil
	}
	keys := newCache(s, "answer key", s.cfg.KeyCacheBytes, load)
	registerCacheMetrics(s.cfg.Registerer, "answer_keys", keys.entries)
	return &Keys[K]{keys}
}
