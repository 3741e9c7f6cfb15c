package read

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/catalog"
)

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

// documentID names a stored document of a revision, such as its answer key.
type documentID struct {
	name string
	revisionID
}

// damagedDocuments are the documents that could not be read when they were loaded last, each with a function that loads it
// again.
type damagedDocuments struct {
	mu     sync.Mutex
	reload map[documentID]func(context.Context) error
}

// set adds a document, or removes it if reload is nil.
func (d *damagedDocuments) set(id documentID, reload func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reload == nil {
		delete(d.reload, id)
		return
	}
	if d.reload == nil {
		d.reload = map[documentID]func(context.Context) error{}
	}
	d.reload[id] = reload
}

func (d *damagedDocuments) all() map[documentID]func(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.reload)
}

// recheck loads up to 20 documents again, so that they no longer count once they are repaired. It removes those that
// isCurrent rejects, and stops if PostgreSQL is unavailable.
func (d *damagedDocuments) recheck(ctx context.Context, isCurrent func(revisionID) bool) {
	loads := 0
	for id, reload := range d.all() {
		if !isCurrent(id.revisionID) {
			d.set(id, nil)
		} else if loads++; loads <= 20 {
			if _, unavailable := errors.AsType[*catalog.UnavailableError](reload(ctx)); unavailable {
				return
			}
		}
	}
}
