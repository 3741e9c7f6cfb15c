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

// MaxPage is the maximum number of keys that Page returns at once.
const MaxPage = 100

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
	name, err := AccountName(name)
	if err != nil {
		return uuid.Nil, err
	}
	return s.queries.EnsureAccount(ctx, keysdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: name})
}

// Summary is the public part of a key.
type Summary struct {
	ID                               uuid.UUID
	Prefix, Name, Account, Tier      string // Tier is the one that applies
	CreatedAt                        time.Time
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
}

func (t *Tiers) summary(row keysdb.ListKeysRow) Summary {
	return Summary{
		ID: row.ID, Prefix: row.Prefix, Name: row.Name, Account: row.Account, Tier: t.nameFor(row.Tier, row.Prefix, row.AccountID),
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
}

// List returns the keys of an account, or of all if account is empty, newest first. An unknown account has none.
func (s *Store) List(ctx context.Context, account string) ([]Summary, error) {
	if account != "" {
		name, err := AccountName(account)
		if err != nil {
			return nil, err
		}
		account = name
	}
	rows, err := s.queries.ListKeys(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	tiers, err := ReadTiers(ctx, s.queries)
	if err != nil {
		return nil, err
	}
	list := make([]Summary, len(rows))
	for i, row := range rows {
		list[i] = tiers.summary(row)
	}
	return list, nil
}

// Page is a part of an account's keys, newest first.
type Page struct {
	Keys []Summary
	More bool // reports whether there are older ones
}

// Page returns up to limit (1 to MaxPage) keys of an account, also those that are revoked or have expired, newest first,
// from before the key of the prefix before on (empty: from the newest on). Keys of the same instant are in the order of
// their ids, so a walk by the last key of each page meets every key once. If the account has no key of the prefix before,
// the error is an *InvalidError.
func (s *Store) Page(ctx context.Context, account uuid.UUID, before string, limit int) (Page, error) {
	if limit < 1 || limit > MaxPage {
		return Page{}, &InvalidError{Field: "limit", Detail: fmt.Sprintf("must be 1 to %d", MaxPage)}
	}
	arg := keysdb.PageOfKeysParams{Account: account, BeforeID: uuid.Max, Page: int32(limit) + 1}
	if before != "" {
		from, err := keyOfAccount(ctx, s.queries, "before", before, account)
		if err != nil {
			return Page{}, err
		}
		arg.Before, arg.BeforeID = &from.CreatedAt, from.ID
	}
	rows, err := s.queries.PageOfKeys(ctx, arg)
	if err != nil {
		return Page{}, fmt.Errorf("read page of keys: %w", err)
	}
	tiers, err := ReadTiers(ctx, s.queries)
	if err != nil {
		return Page{}, err
	}
	page := Page{More: len(rows) > limit}
	for _, row := range rows[:min(len(rows), limit)] {
		page.Keys = append(page.Keys, tiers.summary(keysdb.ListKeysRow(row)))
	}
	return page, nil
}

// keyOfAccount returns the account's key of that prefix. If there is none, the error is an *InvalidError of the field.
func keyOfAccount(
	ctx context.Context, q *keysdb.Queries, field, prefix string, account uuid.UUID,
) (keysdb.KeyOfAccountRow, error) {
	unknown := &InvalidError{Field: field, Detail: "must be the prefix of a key of the account"}
	if !IsPrefix(prefix) { // other bytes must not reach the database, whose text is UTF-8
		return keysdb.KeyOfAccountRow{}, unknown
	}
	key, err := q.KeyOfAccount(ctx, keysdb.KeyOfAccountParams{Prefix: prefix, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return key, unknown
	}
	return key, err
}
