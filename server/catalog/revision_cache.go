package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"golang.org/x/sync/singleflight"
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
	// what names the values in errors.
	what    string
	entries *otter.Cache[revisionID, sized[V]]
	flights singleflight.Group
	timeout time.Duration
	// load fails with an error of isDamaged if the stored document cannot be read, and with pgx.ErrNoRows if there is none.
	load func(context.Context, revisionID) (sized[V], error)

	mu      sync.Mutex
	damaged map[revisionID]struct{}
}

// sized is a value with the bytes it occupies, roughly.
type sized[V any] struct {
	value V
	bytes int
}

func newRevisionCache[V any](
	what string, maximum uint64, timeout time.Duration, load func(context.Context, revisionID) (sized[V], error),
) (*revisionCache[V], error) {
	entries, err := otter.New(&otter.Options[revisionID, sized[V]]{
		MaximumWeight: maximum,
		StatsRecorder: stats.NewCounter(),
		Weigher: func(_ revisionID, entry sized[V]) uint32 {
			return uint32(min(max(entry.bytes, 1), math.MaxUint32))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s cache: %w", what, err)
	}
	return &revisionCache[V]{
		what: what, entries: entries, timeout: timeout, load: load, damaged: map[revisionID]struct{}{},
	}, nil
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
	damaged := isDamaged(err)
	switch {
	case damaged:
		err = &UnreadableError{What: c.what, Name: id.examKey + " " + id.digest.String(), Err: err}
	case isNoRows(err):
		err = &NotFoundError{What: "revision", Name: id.digest.String()}
	case err != nil:
		return entry.value, &UnavailableError{Err: err}
	default:
		c.entries.Set(id, entry)
	}
	c.mark(id, damaged)
	return entry.value, err
}

// mark records whether a revision's stored document was unreadable when it was loaded last.
func (c *revisionCache[V]) mark(id revisionID, unreadable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unreadable {
		c.damaged[id] = struct{}{}
	} else {
		delete(c.damaged, id)
	}
}

// unreadable returns the revisions that were unreadable when they were loaded last.
func (c *revisionCache[V]) unreadable() []revisionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.damaged))
}

// maxRechecks is how many unreadable revisions a recheck loads.
const maxRechecks = 20

// recheck loads unreadable revisions again, so that they no longer count once they are repaired. It drops those that
// isCurrent rejects, and stops if PostgreSQL cannot be asked.
func (c *revisionCache[V]) recheck(ctx context.Context, isCurrent func(revisionID) bool) {
	loads := 0
	for _, id := range c.unreadable() {
		switch {
		case !isCurrent(id):
			c.mark(id, false)
		case loads < maxRechecks:
			loads++
			_, err := c.get(ctx, id)
			if _, unavailable := errors.AsType[*UnavailableError](err); unavailable {
				return
			}
		}
	}
}
