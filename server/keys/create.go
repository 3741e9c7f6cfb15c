package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/keysdb"
)

const (
	// maxOverlap is how long a rotated key may outlive the creation of its successor.
	maxOverlap = 24 * time.Hour
	// prefixTries bounds how often a prefix that is taken is drawn again: with a million keys one try fails with
	// probability 2⁻¹².
	prefixTries = 5
)

// NewKey asks for a key.
type NewKey struct {
	// Account is the account's name. The account is created if there is none of that name.
	Account string
	// Name is free text, at most 200 characters.
	Name string
	// Tier is the key's own tier. Empty: the rule of the package comment decides.
	Tier string
	// InheritFrom is the prefix of a key of the account, whose family the new key joins. Empty: a family of its own.
	InheritFrom string
	// ExpiresAt must be in the future and before the year 10000, the last that RFC 3339 can write. It is kept to the
	// microsecond. nil for never.
	ExpiresAt *time.Time
	// MaxLiveKeys refuses the key with a *LimitError if the account has as many live keys. 0 for no limit.
	MaxLiveKeys int
}

// CreatedKey is a new key. Key is its text, which nothing else ever holds.
type CreatedKey struct {
	Key, Prefix, Account, Name, Tier string
	CreatedAt                        time.Time
	ExpiresAt                        *time.Time
}

// Create makes a key. When it returns nil, every API pod accepts the key. An [*UnconfirmedError] comes with the key: it
// exists.
func (s *Store) Create(ctx context.Context, want NewKey) (CreatedKey, error) {
	if err := validate(want); err != nil {
		return CreatedKey{}, err
	}
	want.ExpiresAt = truncateToMicroseconds(want.ExpiresAt)
	var created CreatedKey
	err := s.retryPrefix(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
		account, err := q.EnsureAccount(ctx, keysdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: want.Account})
		if err != nil {
			return audit.Entry{}, fmt.Errorf("ensure account: %w", err)
		}
		if err := checkLiveKeyLimit(ctx, q, account, want.MaxLiveKeys); err != nil {
			return audit.Entry{}, err
		}
		id := uuid.Must(uuid.NewV7())
		family, err := familyOf(ctx, q, want.InheritFrom, account, id)
		if err != nil {
			return audit.Entry{}, err
		}
		created, err = insert(ctx, q, keysdb.InsertKeyParams{
			ID: id, AccountID: account, FamilyID: family, Name: want.Name, Tier: nullIfEmpty(want.Tier), ExpiresAt: want.ExpiresAt,
		})
		created.Account = want.Account
		return creation(account, created, want.InheritFrom), err
	})
	if err != nil {
		return CreatedKey{}, err
	}
	return created, s.pods.Confirm(ctx, Addition)
}

// familyOf returns the family of the account's key with that prefix, or own if the prefix is empty.
func familyOf(ctx context.Context, q *keysdb.Queries, prefix string, account, own uuid.UUID) (uuid.UUID, error) {
	if prefix == "" {
		return own, nil
	}
	family, err := q.KeyFamily(ctx, keysdb.KeyFamilyParams{Prefix: prefix, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, &InvalidError{Field: "inherit_from", Detail: notOfAccount}
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("read family: %w", err)
	}
	return family, nil
}

// creation is the audit entry of a new key.
func creation(account uuid.UUID, created CreatedKey, inheritFrom string) audit.Entry {
	detail := map[string]any{"name": created.Name, "tier": created.Tier}
	if created.ExpiresAt != nil {
		detail["expires_at"] = created.ExpiresAt.UTC()
	}
	if inheritFrom != "" {
		detail["inherit_from"] = inheritFrom
	}
	return audit.Entry{Account: account, Action: audit.KeyCreate, Target: created.Prefix, Detail: detail}
}

// Rotate creates a successor to the key of that prefix: same account, family, name, tier and expiry. The old key is
// accepted for another overlap (0 to 24 h); with 0 no API pod accepts it when Rotate returns nil. A key is rotated once: again
// is a *RetiredKeyError, since its expiry is by then the end of the overlap. An [*UnconfirmedError] comes with the
// successor: it exists. An account at its limit can rotate; a *LimitError reports too many rotated keys.
func (s *Store) Rotate(ctx context.Context, prefix string, overlap time.Duration) (CreatedKey, error) {
	if overlap < 0 || overlap > maxOverlap {
		return CreatedKey{}, &InvalidError{Field: "overlap", Detail: "must be between 0 and 24 hours"}
	}
	var created CreatedKey
	err := s.retryPrefix(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
		old, err := q.LockKey(ctx, prefix)
		if err != nil {
			return audit.Entry{}, unknownKey(err, prefix)
		}
		if old.Expired || old.RevokedAt != nil || old.RotatedAt != nil {
			return audit.Entry{}, &RetiredKeyError{Prefix: prefix}
		}
		if err := checkRotatedKeyLimit(ctx, q, old.AccountID, overlap); err != nil {
			return audit.Entry{}, err
		}
		created, err = insert(ctx, q, keysdb.InsertKeyParams{
			ID: uuid.Must(uuid.NewV7()), AccountID: old.AccountID, FamilyID: old.FamilyID, Name: old.Name,
			Tier: old.Tier, ExpiresAt: old.ExpiresAt,
		})
		created.Account = old.Account
		if err != nil {
			return audit.Entry{}, err
		}
		return audit.Entry{
			Account: old.AccountID, Action: audit.KeyRotate, Target: prefix,
			Detail: map[string]any{"successor": created.Prefix, "overlap_seconds": overlap.Seconds()},
		}, retire(ctx, q, old.ID, prefix, overlap)
	})
	if err != nil {
		return CreatedKey{}, err
	}
	return created, s.pods.Confirm(ctx, Restriction)
}

// retire ends a key that has a successor, at once or after the overlap.
func retire(ctx context.Context, q *keysdb.Queries, id uuid.UUID, prefix string, overlap time.Duration) error {
	var err error
	if overlap == 0 {
		err = q.RevokeKey(ctx, prefix)
	} else {
		err = q.RetireKey(ctx, keysdb.RetireKeyParams{ID: id, Overlap: overlap.Microseconds()})
	}
	if err != nil {
		return fmt.Errorf("retire key: %w", err)
	}
	return nil
}

// insert draws a key's text, stores its hash, and reads which tier applies.
func insert(ctx context.Context, q *keysdb.Queries, arg keysdb.InsertKeyParams) (CreatedKey, error) {
	key := generate()
	hash := sha256.Sum256([]byte(key))
	arg.Prefix, arg.Hash = prefixOf(key), hash[:]
	createdAt, err := q.InsertKey(ctx, arg)
	if err != nil {
		var tier string
		if arg.Tier != nil {
			tier = *arg.Tier
		}
		return CreatedKey{}, fmt.Errorf("insert key: %w", unknownTier(err, tier))
	}
	tiers, err := ReadTiers(ctx, q)
	if err != nil {
		return CreatedKey{}, err
	}
	return CreatedKey{
		Key: key, Prefix: arg.Prefix, Name: arg.Name, Tier: tiers.nameFor(arg.Tier, arg.Prefix, arg.AccountID),
		CreatedAt: createdAt, ExpiresAt: arg.ExpiresAt,
	}, nil
}

// retryPrefix runs a transaction, and repeats it while the prefix that it drew is taken.
func (s *Store) retryPrefix(ctx context.Context, create func(*keysdb.Queries) (audit.Entry, error)) error {
	var err error
	for range prefixTries {
		err = s.transact(ctx, create)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.ConstraintName != "api_keys_prefix_key" {
			return err
		}
	}
	return err
}
