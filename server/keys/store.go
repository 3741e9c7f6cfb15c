package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/keysdb"
)

// ChangeKind is what a change of keys means for a pod that cannot reach PostgreSQL.
type ChangeKind uint8

const (
	// Restriction is a change after which something must no longer pass: a revocation, rotation, change of a tier.
	Restriction ChangeKind = iota
	// Addition is a new key. A pod that cannot reach PostgreSQL returns 503 for it.
	Addition
)

// Confirmer waits, after the commit of a change, until no API pod goes by an older state. Its error is an
// [*UnconfirmedError]. directory.Author implements it.
type Confirmer interface {
	Confirm(ctx context.Context, kind ChangeKind) error
}

// Store reads and changes keys, accounts and tiers.
type Store struct {
	pool    *pgxpool.Pool
	queries *keysdb.Queries
	pods    Confirmer
}

// NewStore returns a store on pool whose changes pods confirm.
func NewStore(pool *pgxpool.Pool, pods Confirmer) *Store {
	return &Store{pool: pool, queries: keysdb.New(pool), pods: pods}
}

// EnsureAccount returns the id of the account of that name, created if there is none.
func (s *Store) EnsureAccount(ctx context.Context, name string) (uuid.UUID, error) {
	if err := validateAccount(name); err != nil {
		return uuid.Nil, err
	}
	id, err := s.queries.EnsureAccount(ctx, keysdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: name})
	if err != nil {
		return uuid.Nil, fmt.Errorf("ensure account: %w", err)
	}
	return id, nil
}

// Revoke ends the key of that prefix. When it returns nil, no API pod accepts the key. Revoking twice is no mistake: the
// second call confirms a first one that was not confirmed ([*UnconfirmedError]).
func (s *Store) Revoke(ctx context.Context, prefix string) error {
	return s.change(ctx, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		err := q.RevokeKey(ctx, prefix)
		return audit.Entry{Action: audit.KeyRevoke, Detail: map[string]any{"repeated": old.RevokedAt != nil}}, err
	})
}

// SetTier gives a key a tier of its own. An empty name takes it away. When it returns nil, every API pod applies it.
func (s *Store) SetTier(ctx context.Context, prefix, tier string) error {
	return s.change(ctx, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		err := q.SetKeyTier(ctx, keysdb.SetKeyTierParams{Prefix: prefix, Tier: nullIfEmpty(tier)})
		detail := map[string]any{"tier": nullIfEmpty(tier), "was": old.Tier}
		return audit.Entry{Action: audit.KeySetTier, Detail: detail}, unknownTier(err, tier)
	})
}

// change runs one statement on the key of that prefix, commits, and waits for the pods.
func (s *Store) change(
	ctx context.Context, prefix string, statement func(*keysdb.Queries, keysdb.LockKeyRow) (audit.Entry, error),
) error {
	err := s.transact(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
		old, err := q.LockKey(ctx, prefix)
		if err != nil {
			return audit.Entry{}, unknownKey(err, prefix)
		}
		entry, err := statement(q, old)
		entry.Account, entry.Target = old.AccountID, prefix
		return entry, err
	})
	if err != nil {
		return err
	}
	return s.pods.Confirm(ctx, Restriction)
}

// transact runs do in a transaction, and records there what it did.
func (s *Store) transact(ctx context.Context, do func(*keysdb.Queries) (audit.Entry, error)) error {
	err := s.begin(ctx, func(tx pgx.Tx, q *keysdb.Queries) error {
		entry, err := do(q)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, entry)
	})
	if err != nil {
		return fmt.Errorf("change keys: %w", err)
	}
	return nil
}

// begin runs do in a transaction that a crash of the server does not lose.
func (s *Store) begin(ctx context.Context, do func(pgx.Tx, *keysdb.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if err := q.CommitSynchronously(ctx); err != nil {
			return fmt.Errorf("set synchronous_commit: %w", err)
		}
		return do(tx, q)
	})
}

func unknownKey(err error, prefix string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &UnknownKeyError{Prefix: prefix}
	}
	return err
}

// unknownTier makes the database's refusal of a reference to a tier an [*UnknownTierError].
func unknownTier(err error, tier string) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23503" && pg.ConstraintName == "api_keys_tier_fkey" {
		return &UnknownTierError{Tier: tier}
	}
	return err
}
