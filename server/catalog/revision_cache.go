package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/postgres/catalogdb"
)

// revisionID names a paper's revision; what it names never changes, so that a cache of them never goes stale. Should
// somebody change it in the database all the same, and the operator put it right, the exam's repairs are one more: who
// read it before, or is reading it still, has it under another name.
type revisionID struct {
	examKey string
	digest  Digest
	repairs int64
}

// revisionCache keeps what was loaded for revisions, up to a number of bytes. However many ask for one that is missing,
// it is loaded once; each of them waits only as long as its own context allows.
type revisionCache[V any] struct {
	entries *otter.Cache[revisionID, sized[V]]
	flights singleflight.Group
	timeout time.Duration
	load    func(context.Context, revisionID) (sized[V], error)
}

// sized is a value with the bytes it occupies, roughly.
type sized[V any] struct {
	value V
	bytes int
}

func newRevisionCache[V any](
	maximum uint64, timeout time.Duration, load func(context.Context, revisionID) (sized[V], error),
) (*revisionCache[V], error) {
	entries, err := otter.New(&otter.Options[revisionID, sized[V]]{
		MaximumWeight: maximum,
		StatsRecorder: stats.NewCounter(),
		Weigher: func(_ revisionID, entry sized[V]) uint32 {
			return uint32(min(max(entry.bytes, 1), math.MaxUint32))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("paper cache: %w", err)
	}
	return &revisionCache[V]{entries: entries, timeout: timeout, load: load}, nil
}

func (c *revisionCache[V]) get(ctx context.Context, id revisionID) (V, error) {
	if entry, ok := c.entries.GetIfPresent(id); ok {
		return entry.value, nil
	}
	var none V
	flight := c.flights.DoChan(fmt.Sprintf("%s\x00%s%d", id.examKey, id.digest[:], id.repairs), func() (any, error) { return c.fill(ctx, id) })
	select {
	case <-ctx.Done():
		return none, &UnavailableError{Err: ctx.Err()}
	case result := <-flight:
		if result.Err != nil {
			return none, result.Err
		}
		value, _ := result.Val.(V) // fill returns nothing else
		return value, nil
	}
}

// fill loads for everybody who waits, so it must not end with the one whose request came first.
func (c *revisionCache[V]) fill(ctx context.Context, id revisionID) (V, error) {
	if entry, ok := c.entries.GetIfPresent(id); ok { // an earlier flight landed meanwhile
		return entry.value, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	entry, err := c.load(ctx, id)
	switch {
	case isNoRows(err):
		return entry.value, &NotFoundError{What: "revision", Name: id.digest.String()}
	case err != nil:
		return entry.value, &UnavailableError{Err: err}
	}
	c.entries.Set(id, entry)
	return entry.value, nil
}

// loadPaper reads the questions of a revision. It touches no table that holds an answer.
func (s *Snapshot) loadPaper(ctx context.Context, id revisionID) (sized[*PaperRevision], error) {
	row, err := catalogdb.New(s.pool).PaperRevision(ctx, catalogdb.PaperRevisionParams{
		ExamKey: id.examKey, Digest: id.digest[:],
	})
	if err != nil {
		return sized[*PaperRevision]{}, err
	}
	var questions []storedQuestion
	if err := json.Unmarshal(row.Questions, &questions); err != nil {
		return sized[*PaperRevision]{}, fmt.Errorf("stored paper %s: %w", row.PaperID, err)
	}
	paper := &PaperRevision{
		ExamKey: id.examKey, Digest: id.digest, PaperID: row.PaperID, DurationMinutes: int(row.DurationMinutes),
	}
	if paper.Questions, err = renderQuestions(questions); err != nil {
		return sized[*PaperRevision]{}, fmt.Errorf("render paper %s: %w", row.PaperID, err)
	}
	const header = 24 // of a slice
	size := 256
	for _, question := range paper.Questions {
		size += cap(question) + header
	}
	return sized[*PaperRevision]{paper, size}, nil
}

func (s *Snapshot) loadAnswerKey(ctx context.Context, id revisionID) (sized[*AnswerKey], error) {
	raw, err := catalogdb.New(s.pool).PaperAnswerKey(ctx, catalogdb.PaperAnswerKeyParams{
		ExamKey: id.examKey, Digest: id.digest[:],
	})
	if err != nil {
		return sized[*AnswerKey]{}, err
	}
	key := &AnswerKey{ExamKey: id.examKey, Digest: id.digest}
	if err := json.Unmarshal(raw, key); err != nil {
		return sized[*AnswerKey]{}, fmt.Errorf("stored answer key %s: %w", id.digest, err)
	}
	const structBytes = 320 // of a QuestionKey and the strings it points to
	return sized[*AnswerKey]{key, len(raw) + structBytes*len(key.Keys)}, nil
}
