package read

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// documentID names a stored document of a revision, such as its answer key.
type documentID struct {
	name string
	revisionID
}

// sized is a value with its approximate size in bytes.
type sized[V any] struct {
	value V
	bytes int
}

// cache keeps the values that load returned for revisions, up to a number of bytes. load fails with an error of isDamaged if
// the stored document cannot be read, and with pgx.ErrNoRows if there is none.
type cache[V any] struct {
	snapshot *Snapshot
	name     string // of a value in errors
	entries  *otter.Cache[revisionID, sized[V]]
	load     func(context.Context, *catalogdb.Queries, revisionID) (sized[V], error)
}

func newCache[V any](
	s *Snapshot, name string, maxBytes uint64, load func(context.Context, *catalogdb.Queries, revisionID) (sized[V], error),
) *cache[V] {
	return &cache[V]{snapshot: s, name: name, load: load, entries: otter.Must(&otter.Options[revisionID, sized[V]]{
		MaximumWeight: maxBytes,
		StatsRecorder: stats.NewCounter(),
		Weigher:       func(_ revisionID, e sized[V]) uint32 { return uint32(min(max(e.bytes, 1), math.MaxUint32)) },
	})}
}

// Get returns the value of a paper's revision, also if that is no longer published. The value must not be changed. All
// callers that miss it share one load, which does not end with any of them; each waits until its own context ends. Get fails
// with *catalog.NotFoundError, *catalog.UnreadableError or *catalog.UnavailableError.
func (c *cache[V]) Get(ctx context.Context, examKey string, digest catalog.Digest) (V, error) {
	id := c.snapshot.revision(examKey, digest)
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
		c.snapshot.damaged.Set(documentID{c.name, id}, func(ctx context.Context) error {
			_, err := c.Get(ctx, id.examKey, id.digest)
			return err
		})
		return entry, &catalog.UnreadableError{What: c.name, Name: id.examKey + " " + id.digest.String(), Err: err}
	case errors.Is(err, pgx.ErrNoRows):
		err = &catalog.NotFoundError{What: "revision", Name: id.digest.String()}
	case err != nil:
		return entry, &catalog.UnavailableError{Err: err}
	}
	c.snapshot.damaged.Invalidate(documentID{c.name, id})
	return entry, err
}

// errUndecodable is in the chain of each error about a stored document that differs from what Publisher writes.
var errUndecodable = errors.New("the stored document cannot be decoded")

// isDamaged reports whether a stored row cannot be decoded, or PostgreSQL failed to read it, while other rows may be
// readable. PostgreSQL reports corrupted storage in class XX and invalid values in class 22. Connection poolers use these
// classes for failures of their own, with severity FATAL.
func isDamaged(err error) bool {
	failure, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errUndecodable) || ok && failure.SeverityUnlocalized == "ERROR" &&
		(strings.HasPrefix(failure.Code, "XX") || strings.HasPrefix(failure.Code, "22"))
}

// recheckDamaged loads up to 20 damaged documents again, so that they no longer count once they are repaired. It forgets
// those that no exam of the view has, and stops if PostgreSQL is unavailable.
func recheckDamaged(ctx context.Context, s *Snapshot) {
	loads := 0
	for id, reload := range maps.Collect(s.damaged.All()) {
		if id.revisionID != s.revision(id.examKey, id.digest) {
			s.damaged.Invalidate(id)
		} else if loads++; loads <= 20 {
			if _, unavailable := errors.AsType[*catalog.UnavailableError](reload(ctx)); unavailable {
				return
			}
		}
	}
}

// unreadableExams returns the number of exams whose published revision, or a document of one of their papers, cannot be
// read.
func unreadableExams(s *Snapshot) int {
	unreadable := map[string]bool{}
	for key, exam := range s.current.Load().exams {
		if exam.unreadable != "" {
			unreadable[key] = true
		}
	}
	for id := range s.damaged.Keys() {
		unreadable[id.examKey] = true
	}
	return len(unreadable)
}
