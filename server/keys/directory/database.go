package directory

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

// database is PostgreSQL for one pod.
type database interface {
	// load returns all keys and tiers, and the newest number, as of one snapshot.
	load(ctx context.Context) (*contents, error)
	// read applies the present rows of the keys that changed. An empty hash is a change of tiers.
	read(ctx context.Context, into *contents, hashes [][]byte) error
	// RegisterPod inserts the pod's row, or replaces it.
	RegisterPod(ctx context.Context, row keysdb.RegisterPodParams) error
	RenewLease(ctx context.Context, row keysdb.RenewLeaseParams) (keysdb.RenewLeaseRow, error)
	// AddEmptyKeyChange adds a change of nothing, with a number above the given one. It returns 0 if that is more than a day ahead
	// of PostgreSQL's time, so that no change had it.
	AddEmptyKeyChange(ctx context.Context, above int64) (added int64, err error)
}

// connection is a database by one connection.
type connection struct {
	*keysdb.Queries

	conn *pgx.Conn
	cfg  *Config
}

func newConnection(conn *pgx.Conn, cfg *Config) *connection {
	return &connection{Queries: keysdb.New(conn), conn: conn, cfg: cfg}
}

// TooLargeError reports that the keys do not fit into the directory's budget.
type TooLargeError struct {
	// Keys is the number of keys read so far, Bytes what they took. Budget is the maximum of bytes.
	Keys, Bytes, Budget int
	// Setting is the name of the flag that sets the budget.
	Setting string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf(
		"the directory of live API keys needs more than %d bytes (%d keys took %d): raise %s and the memory of the pod",
		e.Budget, e.Keys, e.Bytes, e.Setting)
}

func (c *connection) load(ctx context.Context) (*contents, error) {
	loaded := newContents(shardCount)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, c.conn, options, func(pgx.Tx) error {
		number, err := c.NewestKeyChange(ctx)
		if err != nil {
			return fmt.Errorf("read the newest change: %w", err)
		}
		loaded.number.Store(number)
		rows := 0
		err = c.readKeys(ctx, func(e entry, prefix, tier []byte) error {
			loaded.put(e, string(prefix), string(tier))
			if rows++; rows%1024 == 0 {
				if _, bytes := loaded.keys.size(); bytes > c.cfg.Budget {
					return &TooLargeError{Keys: rows, Bytes: bytes, Budget: c.cfg.Budget, Setting: c.cfg.BudgetSetting}
				}
			}
			return nil
		}, activeKeys)
		if err != nil {
			return err
		}
		c.logBad(loaded)
		return c.readTiers(ctx, loaded)
	})
	if err != nil {
		return nil, fmt.Errorf("load keys: %w", err)
	}
	return loaded, nil
}

func (c *connection) read(ctx context.Context, into *contents, hashes [][]byte) error {
	type row struct {
		entry
		prefix, tier string
	}
	var rows []row
	changed := slices.DeleteFunc(slices.Clone(hashes), func(hash []byte) bool { return len(hash) == 0 })
	if len(changed) > 0 {
		list, err := c.conn.TypeMap().Encode(pgtype.ByteaArrayOID, pgx.BinaryFormatCode, changed, nil)
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		err = c.readKeys(ctx, func(e entry, prefix, tier []byte) error {
			rows = append(rows, row{e, string(prefix), string(tier)})
			into.tierIndex(string(tier))
			return nil
		}, activeKeys+" AND hash = ANY ($1::bytea[])", list)
		if err != nil {
			return err
		}
	}
	if len(changed) < len(hashes) || into.staleTiers { // before readers can see a key with a new tier
		if err := c.readTiers(ctx, into); err != nil {
			return err
		}
	}
	present := map[keyHash]bool{}
	for _, r := range rows {
		present[r.hash] = true
		into.put(r.entry, r.prefix, r.tier)
	}
	for _, hash := range changed {
		if short := shorten(hash); !present[short] {
			into.remove(&short)
		}
	}
	c.logBad(into)
	return nil
}

// logBad logs the last unreadable row that was read, if there is one.
func (c *connection) logBad(from *contents) {
	if from.bad != nil {
		c.cfg.Logger.Warn("rows of keys cannot be read; these keys are refused", "rows", len(from.badKeys), "last", from.bad)
		from.bad = nil
	}
}

// shorten returns the first half of a hash.
func shorten(hash []byte) (short keyHash) {
	copy(short[:], hash)
	return short
}

// activeKeys reads all active keys in one pass. The time is PostgreSQL's; keys that expire later are checked at each use.
const activeKeys = `SELECT hash, id, family_id, account_id, prefix, tier, expires_at FROM api_keys
	WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`

// epochMicros is 2000-01-01, at which PostgreSQL's timestamps begin, in µs since 1970.
const epochMicros = 946_684_800_000_000

// readKeys calls each for each key that a statement returns, without the numbers of its prefix and tier, whose texts are valid
// during the call. It ends with its error. The binary format is decoded here: scanning takes twice the time, and sqlc would
// return all keys in a slice.
func (c *connection) readKeys(
	ctx context.Context, each func(e entry, prefix, tier []byte) error, statement string, parameters ...[]byte,
) (err error) {
	binaryFormat := []int16{pgx.BinaryFormatCode}
	rows := c.conn.PgConn().ExecParams(ctx, statement, parameters, nil, binaryFormat, binaryFormat)
	for err == nil && rows.NextRow() {
		v := rows.Values()
		e := entry{hash: shorten(v[0]), key: uuid.UUID(v[1]), family: uuid.UUID(v[2]), account: uuid.UUID(v[3])}
		if v[6] != nil {
			// math.MaxInt64 is "infinity".
			if micros := int64(binary.BigEndian.Uint64(v[6])); micros < math.MaxInt64-epochMicros {
				e.expiry = micros + epochMicros
			}
		}
		err = each(e, v[4], v[5])
	}
	if _, failed := rows.Close(); err == nil && failed != nil {
		return fmt.Errorf("read keys: %w", failed)
	}
	return err
}

func (c *connection) readTiers(ctx context.Context, into *contents) error {
	read, err := keys.ReadTiers(ctx, c.Queries)
	if err != nil {
		return err
	}
	into.setTiers(read)
	return nil
}
