package read

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// revisionID is the cache key of a paper's revision. A revision never changes, except by a repair of its rows: the number
// of the exam's repairs is part of the key, so that a repaired revision is loaded again.
type revisionID struct {
	examKey string
	digest  catalog.Digest
	repairs int64
}

// sized is a value with its approximate size in bytes.
type sized[V any] struct {
	value V
	bytes int
}

// loadFunc reads the value of a revision. It fails with an error of isDamaged if the stored document cannot be read, and
// with pgx.ErrNoRows if there is none.
type loadFunc[V any] func(context.Context, *catalogdb.Queries, revisionID) (sized[V], error)

// cache keeps the values that load returned for revisions, up to a number of bytes.
type cache[V any] struct {
	snapshot *Snapshot
	name     string // of a value in errors
	entries  *otter.Cache[revisionID, sized[V]]
	load     loadFunc[V]
}

func newCache[V any](s *Snapshot, name string, maxBytes uint64, load loadFunc[V]) (*cache[V], error) {
	entries, err := otter.New(&otter.Options[revisionID, sized[V]]{
		MaximumWeight: maxBytes,
		StatsRecorder: stats.NewCounter(),
		Weigher:       func(_ revisionID, e sized[V]) uint32 { return uint32(min(max(e.bytes, 1), math.MaxUint32)) },
	})
	if err != nil {
		return nil, fmt.Errorf("%s cache: %w", name, err)
	}
	return &cache[V]{snapshot: s, name: name, entries: entries, load: load}, nil
}

// get returns the value of a revision. All callers that miss it share one load, which does not end with any of them; each
// waits until its own context ends. It fails with *catalog.NotFoundError, *catalog.UnreadableError or
// *catalog.UnavailableError.
func (c *cache[V]) get(ctx context.Context, id revisionID) (V, error) {
	if _, cached := c.entries.GetEntryQuietly(id); cached { // a miss counts once, in the Get below
		if entry, ok := c.entries.GetIfPresent(id); ok {
			return entry.value, nil
		}
	}
	var entry sized[V]
	var err error
	loaded := make(chan struct{})
	go func() { // ends with the load, at LoadTimeout at the latest
		defer close(loaded)
		entry, err = c.entries.Get(context.WithoutCancel(ctx), id, otter.LoaderFunc[revisionID, sized[V]](c.fill))
	}()
	select {
	case <-loaded:
		return entry.value, err
	case <-ctx.Done():
		var none V
		return none, &catalog.UnavailableError{Err: ctx.Err()}
	}
}

// fill loads a value and records whether its document can be read.
func (c *cache[V]) fill(ctx context.Context, id revisionID) (sized[V], error) {
	ctx, cancel := context.WithTimeout(ctx, c.snapshot.cfg.LoadTimeout)
	defer cancel()
	entry, err := c.load(ctx, c.snapshot.queries, id)
	switch {
	case isDamaged(err):
		c.snapshot.damaged.set(documentID{c.name, id}, func(ctx context.Context) error { _, err := c.get(ctx, id); return err })
		return entry, &catalog.UnreadableError{What: c.name, Name: id.examKey + " " + id.digest.String(), Err: err}
	case err == nil:
	case errors.Is(err, pgx.ErrNoRows):
		err = &catalog.NotFoundError{What: "revision", Name: id.digest.String()}
	default:
		return entry, &catalog.UnavailableError{Err: err}
	}
	c.snapshot.damaged.set(documentID{c.name, id}, nil)
	return entry, err
}
