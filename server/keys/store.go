package keys

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/accounts"
	"examprep.dev/server/postgres/keysdb"
)

// MaxPage is the maximum number of keys that Page returns at once.
const MaxPage = 100

// Store reads and changes keys and tiers.
type Store struct {
	pool    *pgxpool.Pool
	queries *keysdb.Queries
	pods    Confirmer
}

// NewStore returns a store on pool whose changes pods confirm.
func NewStore(pool *pgxpool.Pool, pods Confirmer) *Store {
	return &Store{pool: pool, queries: keysdb.New(pool), pods: pods}
}

// Summary is the public part of a key.
type Summary struct {
	ID                               uuid.UUID
	Prefix, Name, Account, Tier      string // Tier is the one that applies
	CreatedAt                        time.Time
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
}

func (t *Tiers) summary(row keysdb.PageOfKeysRow) Summary {
	return Summary{
		ID: row.ID, Prefix: row.Prefix, Name: row.Name, Account: row.Account, Tier: t.nameFor(row.Tier, row.Prefix, row.AccountID),
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
}

// listPage is how many keys All reads at once.
const listPage = 1000

// All returns the keys of an account, or of all if account is empty, newest first. An unknown account has none. It reads them in pages,
// so its memory does not depend on their number. It ends after an error.
func (s *Store) All(ctx context.Context, account string) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		if err := s.walk(ctx, account, func(key Summary) bool { return yield(key, nil) }); err != nil {
			yield(Summary{}, fmt.Errorf("list keys: %w", err))
		}
	}
}

// walk calls visit with the keys of All until it returns false.
func (s *Store) walk(ctx context.Context, account string, visit func(Summary) bool) error {
	tiers, err := ReadTiers(ctx, s.queries)
	if err != nil {
		return err
	}
	page, err := s.pages(ctx, account)
	if err != nil || page == nil {
		return err
	}
	for from := (position{id: uuid.Max}); ; {
		rows, err := page(from)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !visit(tiers.summary(row)) {
				return nil
			}
		}
		if len(rows) < listPage {
			return nil
		}
		last := rows[len(rows)-1]
		from = position{before: &last.CreatedAt, id: last.ID}
	}
}

// position is where a page of keys begins: before a time, and at that time before an id.
type position struct {
	before *time.Time
	id     uuid.UUID
}

// pages returns what reads a page of the keys of an account, or of all if account is empty; nil if there is no such account.
func (s *Store) pages(ctx context.Context, account string) (func(position) ([]keysdb.PageOfKeysRow, error), error) {
	if account == "" {
		return func(from position) ([]keysdb.PageOfKeysRow, error) {
			all := keysdb.PageOfAllKeysParams{Before: from.before, BeforeID: from.id, Page: listPage}
			rows, err := s.queries.PageOfAllKeys(ctx, all)
			page := make([]keysdb.PageOfKeysRow, len(rows))
			for i, row := range rows {
				page[i] = keysdb.PageOfKeysRow(row)
			}
			return page, err
		}, nil
	}
	name, err := accounts.Name(account)
	if err != nil {
		return nil, err
	}
	id, err := s.queries.AccountNamed(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is nothing to read
	}
	return func(from position) ([]keysdb.PageOfKeysRow, error) {
		return s.queries.PageOfKeys(ctx, keysdb.PageOfKeysParams{Account: id, Before: from.before, BeforeID: from.id, Page: listPage})
	}, err
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
		page.Keys = append(page.Keys, tiers.summary(row))
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
