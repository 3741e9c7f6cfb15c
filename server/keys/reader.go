package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/keysdb"
)

// Reader is what gates need of the key tables: records, and the agreement on which Redis server counts. It stands apart
// from [Store] because a store announces to a gate and a gate reads through a reader.
type Reader struct{ queries *keysdb.Queries }

// NewReader returns a reader on pool.
func NewReader(pool *pgxpool.Pool) *Reader { return &Reader{queries: keysdb.New(pool)} }

// Load returns the record of one key, or *UnknownKeyError.
func (r *Reader) Load(ctx context.Context, hash Hash) (Record, error) {
	records, err := r.LoadMany(ctx, []Hash{hash})
	if err != nil {
		return Record{}, err
	}
	if len(records) == 0 {
		return Record{}, &UnknownKeyError{}
	}
	return records[0], nil
}

// LoadMany returns the records of those hashes that name a key, in no particular order, as of one snapshot that is
// taken after the call.
func (r *Reader) LoadMany(ctx context.Context, hashes []Hash) ([]Record, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	rows, err := r.queries.RecordsByHash(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("load keys: %w", err)
	}
	return recordsOf(rows), nil
}

// Pending returns up to limit records whose present version has not been announced, by key id from the one after on.
func (r *Reader) Pending(ctx context.Context, after uuid.UUID, limit int) ([]Record, error) {
	rows, err := r.queries.PendingRecords(ctx, keysdb.PendingRecordsParams{After: after, Count: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read unannounced keys: %w", err)
	}
	return recordsOf(rows), nil
}

// MarkAnnounced notes that Redis was told of these versions.
func (r *Reader) MarkAnnounced(ctx context.Context, records []Record) error {
	arg := keysdb.MarkAnnouncedParams{Ids: make([]uuid.UUID, len(records)), Versions: make([]int64, len(records))}
	for i, record := range records {
		arg.Ids[i], arg.Versions[i] = record.KeyID, record.Version
	}
	if err := r.queries.MarkAnnounced(ctx, arg); err != nil {
		return fmt.Errorf("mark keys as announced: %w", err)
	}
	return nil
}

// Term is the agreement of all gates on one Redis server: what another server says of a key does not count.
type Term struct {
	// Number rises by one with every change of the server.
	Number int64
	// Current says whether the server that was asked about is the one agreed on.
	Current bool
	// Age is how long ago the term began, by the database's clock.
	Age time.Duration
}

// keepTerms is how long a term is remembered after a gate last asked about its server; see [Reader.Term].
const keepTerms = 7 * 24 * time.Hour

// Term returns the term of a Redis server, named by an identity that it keeps until it restarts or is failed over. A
// server that was never seen before begins a term of its own: it is what a fail-over or a restart brought up. A server
// of an earlier term does not come back (its memory ends where the later term began) unless nobody has confirmed the
// later one for some seconds; it then begins a new term, in which everything is verified afresh.
//
// When a term begins, those about whose server nobody has asked for a week are forgotten. An identity never comes twice
// and a gate asks about the server that it uses several times a second, so nobody uses such a server any more, unless
// that gate has not reached PostgreSQL for a week either. Should it come back, its server begins a term as one never seen
// before would: the gates then dispute over two servers until one is gone, but nothing is believed that should not be,
// because a record counts in the term of its verification only, and numbers of terms rise for ever: the last is never
// forgotten.
func (r *Reader) Term(ctx context.Context, server string) (Term, error) {
	for {
		last, err := r.queries.LastTerm(ctx)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return Term{}, fmt.Errorf("read gate term: %w", err)
		}
		if err == nil && last.Server == server {
			if last.Due {
				err = r.queries.ConfirmTerm(ctx, last.Term)
			}
			if err != nil {
				return Term{}, fmt.Errorf("confirm gate term: %w", err)
			}
			return Term{Number: last.Term, Current: true, Age: time.Duration(last.AgeUs) * time.Microsecond}, nil
		}
		if last.Alive {
			had, err := r.queries.ServerHadTerm(ctx, server)
			if err != nil {
				return Term{}, fmt.Errorf("read gate terms: %w", err)
			}
			if had {
				return Term{Number: last.Term}, nil
			}
		}
		if _, err := r.queries.StartTerm(ctx, keysdb.StartTermParams{
			Term: last.Term + 1, Server: server, KeepUs: keepTerms.Microseconds(),
		}); err != nil {
			return Term{}, fmt.Errorf("start gate term: %w", err)
		}
	}
}
