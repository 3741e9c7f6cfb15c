package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

// maxChanges is the maximum number of changes that a renewal returns.
const maxChanges = 10_000

// renewal is PostgreSQL's answer to a renewal.
type renewal struct {
	renewed    bool // the lease may last, once the changes are applied
	registered bool // the pod has a row
	pods       int  // rows that are not lost
	now        time.Time
	numbers    []int64
	hashes     [][]byte // of the keys that changed; empty: the tiers changed
}

// database is PostgreSQL for one pod.
type database interface {
	// load returns all keys and tiers, and the newest number, as of one snapshot.
	load(ctx context.Context) (*contents, error)
	// register inserts the pod's row, or replaces it.
	register(ctx context.Context, applied int64) error
	renew(ctx context.Context, applied, told int64) (renewal, error)
	// read applies the present rows of some keys, and of the tiers if tiers is true.
	read(ctx context.Context, into *contents, hashes [][]byte, tiers bool) error
	// addEmpty adds a change of nothing, with a number above the given one.
	addEmpty(ctx context.Context, above int64) error
	prune(ctx context.Context) error
}

// connection is a database by one connection.
type connection struct {
	conn    *pgx.Conn
	queries *keysdb.Queries
	id      uuid.UUID
	budget  int // bytes
	logger  *slog.Logger
}

func newConnection(conn *pgx.Conn, id uuid.UUID, cfg Config) *connection {
	return &connection{conn: conn, queries: keysdb.New(conn), id: id, budget: cfg.Budget, logger: cfg.Logger}
}

// TooLargeError reports that the keys do not fit into the directory's budget.
type TooLargeError struct {
	// Keys is the number of keys read so far, Bytes what they took. Budget is the maximum of bytes.
	Keys, Bytes, Budget int
	// Setting is the name of the flag that sets the budget.
	Setting string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the directory of live API keys needs more than %d bytes (%d keys took %d): raise %s and the memory of the pod",
		e.Budget, e.Keys, e.Bytes, e.Setting)
}

func (c *connection) load(ctx context.Context) (*contents, error) {
	loaded := newContents()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, c.conn, options, func(tx pgx.Tx) error {
		number, err := c.queries.WithTx(tx).NewestKeyChange(ctx)
		if err != nil {
			return fmt.Errorf("read the newest change: %w", err)
		}
		loaded.number.Store(number)
		if err := c.copyAll(ctx, loaded); err != nil {
			return err
		}
		return c.readTiers(ctx, c.queries.WithTx(tx), loaded)
	})
	if err != nil {
		return nil, fmt.Errorf("load keys: %w", err)
	}
	debug.FreeOSMemory() // growing the table left about its size in garbage
	return loaded, nil
}

// copyAll adds all live keys to the contents.
func (c *connection) copyAll(ctx context.Context, into *contents) error {
	rows := 0
	var tooLarge error
	err := c.copy(ctx, into, copyAll(), &tooLarge, func(row, bool) {
		if rows++; rows%1024 == 0 {
			if _, bytes := into.keys.size(); bytes > c.budget {
				tooLarge = &TooLargeError{Keys: rows, Bytes: bytes, Budget: c.budget}
			}
		}
	})
	return cmp.Or(tooLarge, err)
}

// copy adds the rows of a COPY statement to the contents, until stop is set. Unreadable rows are counted and logged. each is
// called after each row, with whether its tier is known.
func (c *connection) copy(ctx context.Context, into *contents, statement string, stop *error, each func(r row, known bool)) error {
	bad := 0
	var first error
	reader := &copyReader{row: func(r row, err error) {
		known := true
		if err != nil {
			into.badRow()
		} else {
			known, err = into.put(r)
		}
		if err != nil {
			bad++
			first = cmp.Or(first, err)
		}
		each(r, known)
	}}
	_, err := c.conn.PgConn().CopyTo(ctx, writerUntil{reader, stop}, statement)
	if bad > 0 {
		c.logger.Warn("rows of keys cannot be read; these keys are refused", "rows", bad, "first", first)
	}
	if err != nil {
		return fmt.Errorf("copy keys: %w", err)
	}
	return nil
}

// writerUntil is a copyReader that fails once an error is set.
type writerUntil struct {
	*copyReader
	err *error
}

func (w writerUntil) Write(p []byte) (int, error) {
	n, err := w.copyReader.Write(p)
	if err == nil {
		err = *w.err
	}
	return n, err
}

func (c *connection) readTiers(ctx context.Context, q *keysdb.Queries, into *contents) error {
	read, err := keys.ReadTiers(ctx, q)
	if err != nil {
		return err
	}
	into.setTiers(read)
	return nil
}

func (c *connection) read(ctx context.Context, into *contents, hashes [][]byte, tiers bool) error {
	if len(hashes) > 0 {
		present := map[keyHash]bool{}
		err := c.copy(ctx, into, copySome(hashes), new(error), func(r row, known bool) {
			if len(r.hash) >= len(keyHash{}) {
				present[keyHash(r.hash)] = true
			}
			tiers = tiers || !known
		})
		if err != nil {
			return err
		}
		for _, hash := range hashes {
			if len(hash) < len(keyHash{}) {
				continue // no directory has it
			}
			if short := keyHash(hash); !present[short] {
				into.remove(&short)
			}
		}
	}
	if tiers {
		return c.readTiers(ctx, c.queries, into)
	}
	return nil
}

func (c *connection) register(ctx context.Context, applied int64) error {
	if err := c.queries.RegisterPod(ctx, keysdb.RegisterPodParams{ID: c.id, Applied: applied}); err != nil {
		return fmt.Errorf("register pod: %w", err)
	}
	return nil
}

func (c *connection) renew(ctx context.Context, applied, told int64) (renewal, error) {
	r, err := c.queries.RenewLease(ctx, keysdb.RenewLeaseParams{ID: c.id, Applied: applied, Told: told, Most: maxChanges})
	if err != nil {
		return renewal{}, fmt.Errorf("renew lease: %w", err)
	}
	if len(r.Numbers) != len(r.Hashes) {
		return renewal{}, errors.New("renew lease: numbers and hashes of changes differ in length")
	}
	return renewal{
		renewed: r.Renewed, registered: r.Registered, pods: int(r.Pods), now: r.Now, numbers: r.Numbers, hashes: r.Hashes,
	}, nil
}

func (c *connection) addEmpty(ctx context.Context, above int64) error {
	if err := c.queries.AddEmptyKeyChange(ctx, above); err != nil {
		return fmt.Errorf("add an empty change: %w", err)
	}
	return nil
}

func (c *connection) prune(ctx context.Context) error {
	if err := c.queries.PruneKeyChanges(ctx); err != nil {
		return fmt.Errorf("prune changes: %w", err)
	}
	return nil
}
