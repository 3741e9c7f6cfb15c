package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/accounts"
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

const (
	// developersShare is the percentage of the pods' memory for keys that developers can fill. Administrators, and rotated keys in
	// their overlap, can fill the rest.
	developersShare = 90
	wholeShare      = 100

	maxOverlap = 24 * time.Hour
	lastYear   = 9999 // the last one that RFC 3339 can write
	// prefixTries is the number of prefixes that are drawn until one is free. With a million keys, one is taken with
	// probability 2⁻¹².
	prefixTries = 5
)

// NewKey asks for a key.
type NewKey struct {
	Name string // free text, at most 200 characters
	Tier string // the key's own tier; empty: the rule of the package comment decides
	// InheritFrom is the prefix of a key of the account, whose family the new key joins. Empty: a family of its own.
	InheritFrom string
	ExpiresAt   *time.Time // in the future, before the year 10000, kept to the microsecond; nil for never
}

// CreatedKey is a new key. Key is its text, which nothing else ever holds.
type CreatedKey struct {
	AccountID                        uuid.UUID
	Key, Prefix, Account, Name, Tier string // Account is the account's name
	CreatedAt                        time.Time
	ExpiresAt                        *time.Time
}

// Create makes a key for a member of an account. When it returns nil, every API pod accepts the key. With an [*UnconfirmedError] the key
// exists too. With any other error it does not, unless the connection broke during the commit. A *LimitError refuses the key if the
// account has as many active keys as its limit. In addition, as many rotated keys may be in their overlap. A *FullError refuses the key if
// the API pods have no memory for it.
func (s *Store) Create(ctx context.Context, account uuid.UUID, want NewKey) (CreatedKey, error) {
	return s.create(ctx, want, developersShare, func(q *keysdb.Queries, _ pgx.Tx) (owner, error) {
		of, err := lockAccount(ctx, q, account)
		if err != nil {
			return of, err
		}
		return of, checkLimit(ctx, q, account, &LimitError{Most: of.limit})
	})
}

// CreateFor is [Store.Create] by an administrator, for the account of that name, which it creates if there is none. The account's limit
// does not count, and the last tenth of the API pods' memory for keys is open.
func (s *Store) CreateFor(ctx context.Context, account string, want NewKey) (CreatedKey, error) {
	return s.create(ctx, want, wholeShare, func(q *keysdb.Queries, tx pgx.Tx) (owner, error) {
		id, err := accounts.Ensure(ctx, tx, account)
		if err != nil {
			return owner{}, err
		}
		return lockAccount(ctx, q, id)
	})
}

// owner is the account of a key.
type owner struct {
	id    uuid.UUID
	name  string
	limit int // of active keys that its members create
}

// lockAccount returns the account, whose row it locks.
func lockAccount(ctx context.Context, q *keysdb.Queries, id uuid.UUID) (owner, error) {
	row, err := q.LockAccount(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return owner{}, &UnknownAccountError{ID: id}
	}
	if err != nil {
		return owner{}, fmt.Errorf("lock account: %w", err)
	}
	return owner{id: id, name: row.Name, limit: int(row.KeyLimit)}, nil
}

// create makes a key of the account that find returns, if keys fill less than share percent of the API pods' memory for keys.
func (s *Store) create(
	ctx context.Context, want NewKey, share int64, find func(*keysdb.Queries, pgx.Tx) (owner, error),
) (created CreatedKey, err error) {
	if err := validate(want); err != nil {
		return CreatedKey{}, err
	}
	if want.ExpiresAt != nil { // as PostgreSQL keeps it; rounding up could leave the last year
		want.ExpiresAt = new(want.ExpiresAt.UTC().Truncate(time.Microsecond))
	}
	err = s.change(ctx, Addition, func(tx pgx.Tx, q *keysdb.Queries) error {
		if err := checkRoom(ctx, q, share); err != nil {
			return err
		}
		if err := requireTier(ctx, q, want.Tier); err != nil {
			return err
		}
		of, err := find(q, tx)
		if err != nil {
			return err
		}
		key := keysdb.InsertKeyParams{AccountID: of.id, Name: want.Name, Tier: nullIfEmpty(want.Tier), ExpiresAt: want.ExpiresAt}
		detail := map[string]any{"name": want.Name}
		if want.ExpiresAt != nil {
			detail["expires_at"] = want.ExpiresAt
		}
		if want.InheritFrom != "" {
			inherited, err := keyOfAccount(ctx, q, "inherit_from", want.InheritFrom, of.id)
			if err != nil {
				return err
			}
			key.FamilyID, detail["inherit_from"] = inherited.FamilyID, want.InheritFrom
		}
		if created, err = insert(ctx, q, of.name, key); err != nil {
			return err
		}
		detail["tier"] = created.Tier
		return audit.Record(ctx, tx, audit.Entry{Account: of.id, Action: audit.KeyCreate, Target: created.Prefix, Detail: detail})
	})
	return created, err
}

// Rotate creates a successor to an account's key with the same family, name, tier and expiry. The old key is accepted for another overlap (0 to 24 h); with 0 no API pod accepts it when Rotate returns nil. A second rotation of a key
// is a *RetiredKeyError, since its expiry is by then the end of the overlap. An account at its limit can rotate; a
// *LimitError reports too many rotated keys. A *FullError reports that the API pods have no memory for two keys; a rotation without
// an overlap is then still possible. With an [*UnconfirmedError] the successor exists too. With any other error it
// does not, unless the connection broke during the commit.
func (s *Store) Rotate(
	ctx context.Context, account uuid.UUID, prefix string, overlap time.Duration,
) (created CreatedKey, err error) {
	if overlap < 0 || overlap > maxOverlap {
		return CreatedKey{}, &InvalidError{Field: "overlap", Detail: "must be between 0 and 24 hours"}
	}
	err = s.changeKey(ctx, account, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (entry audit.Entry, err error) {
		if old.Expired || old.RevokedAt != nil || old.RotatedAt != nil {
			return entry, &RetiredKeyError{Prefix: prefix}
		}
		if err := retire(ctx, q, old, prefix, overlap); err != nil {
			return entry, err
		}
		created, err = insert(ctx, q, old.Account, keysdb.InsertKeyParams{
			AccountID: old.AccountID, FamilyID: old.FamilyID, Name: old.Name, Tier: old.Tier, ExpiresAt: old.ExpiresAt,
		})
		detail := map[string]any{"successor": created.Prefix, "overlap_seconds": overlap.Seconds()}
		return audit.Entry{Action: audit.KeyRotate, Detail: detail}, err
	})
	return created, err
}

// Revoke ends an account's key. When it returns nil, no API pod accepts the key. A second call writes nothing, and confirms a first one
// that was not confirmed ([*UnconfirmedError]).
func (s *Store) Revoke(ctx context.Context, account uuid.UUID, prefix string) error {
	return s.changeKey(ctx, account, prefix, revoke(ctx, prefix))
}

// RevokeAny is [Store.Revoke] by an administrator, for a key of any account.
func (s *Store) RevokeAny(ctx context.Context, prefix string) error {
	return s.changeAnyKey(ctx, prefix, revoke(ctx, prefix))
}

// keyChange changes a locked key. An entry without an action records nothing.
type keyChange func(*keysdb.Queries, keysdb.LockKeyRow) (audit.Entry, error)

func revoke(ctx context.Context, prefix string) keyChange {
	return func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		if old.RevokedAt != nil {
			return audit.Entry{}, nil
		}
		return audit.Entry{Action: audit.KeyRevoke}, q.RevokeKey(ctx, prefix)
	}
}

// SetTier gives a key a tier of its own. An empty name takes it away. When it returns nil, every API pod applies it.
func (s *Store) SetTier(ctx context.Context, prefix, name string) error {
	tier := nullIfEmpty(name)
	return s.changeAnyKey(ctx, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		if err := requireTier(ctx, q, name); err != nil {
			return audit.Entry{}, err
		}
		detail := map[string]any{"tier": tier, "was": old.Tier}
		return audit.Entry{Action: audit.KeySetTier, Detail: detail}, q.SetKeyTier(ctx, keysdb.SetKeyTierParams{Prefix: prefix, Tier: tier})
	})
}

// changeKey is changeAnyKey for a key of an account. Another account's key is unknown.
func (s *Store) changeKey(ctx context.Context, account uuid.UUID, prefix string, do keyChange) error {
	return s.changeAnyKey(ctx, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		if account != old.AccountID {
			return audit.Entry{}, &UnknownKeyError{Prefix: prefix}
		}
		return do(q, old)
	})
}

// changeAnyKey changes the key of that prefix, which it locks, and records the change in the key's account.
func (s *Store) changeAnyKey(ctx context.Context, prefix string, do keyChange) error {
	return s.change(ctx, Restriction, func(tx pgx.Tx, q *keysdb.Queries) error {
		old, err := q.LockKey(ctx, prefix)
		if err != nil {
			return unknownKey(err, prefix)
		}
		entry, err := do(q, old)
		if err != nil || entry.Action == "" {
			return err
		}
		entry.Account, entry.Target = old.AccountID, prefix
		return audit.Record(ctx, tx, entry)
	})
}

// change runs do in a transaction that a crash of the server does not lose, and then waits for the pods.
func (s *Store) change(ctx context.Context, kind ChangeKind, do func(pgx.Tx, *keysdb.Queries) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if err := q.CommitSynchronously(ctx); err != nil {
			return fmt.Errorf("set synchronous_commit: %w", err)
		}
		return do(tx, q)
	})
	if err != nil {
		return fmt.Errorf("change keys: %w", err)
	}
	return s.pods.Confirm(ctx, kind)
}

// insert stores a new key of the account of that name, and reads which tier applies. Without a family, it is the first of
// its own.
func insert(ctx context.Context, q *keysdb.Queries, account string, arg keysdb.InsertKeyParams) (CreatedKey, error) {
	tiers, err := ReadTiers(ctx, q)
	if err != nil {
		return CreatedKey{}, err
	}
	arg.ID = uuid.Must(uuid.NewV7())
	if arg.FamilyID == uuid.Nil {
		arg.FamilyID = arg.ID
	}
	for range prefixTries {
		key := generate()
		hash := sha256.Sum256([]byte(key))
		arg.Prefix, arg.Hash = key[:PrefixLength], hash[:]
		createdAt, err := q.InsertKey(ctx, arg)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		return CreatedKey{
			AccountID: arg.AccountID, Key: key, Prefix: arg.Prefix, Account: account, Name: arg.Name, Tier: tiers.nameFor(arg.Tier, arg.Prefix, arg.AccountID),
			CreatedAt: createdAt, ExpiresAt: arg.ExpiresAt,
		}, err
	}
	return CreatedKey{}, fmt.Errorf("%d random key prefixes are taken", prefixTries)
}

// retire ends a key that gets a successor, at once or after the overlap. The account's row stays locked until the end of
// the transaction, so that no other rotation exceeds the limit.
func retire(ctx context.Context, q *keysdb.Queries, old keysdb.LockKeyRow, prefix string, overlap time.Duration) error {
	if overlap == 0 {
		return q.RevokeKey(ctx, prefix)
	}
	if err := checkRoom(ctx, q, wholeShare); err != nil {
		return err
	}
	of, err := lockAccount(ctx, q, old.AccountID)
	if err != nil {
		return err
	}
	if err := checkLimit(ctx, q, of.id, &LimitError{Most: of.limit, Rotated: true}); err != nil {
		return err
	}
	return q.RetireKey(ctx, keysdb.RetireKeyParams{ID: old.ID, Overlap: overlap.Microseconds()})
}

// checkRoom returns a *FullError if the directories of the API pods take so many percent of their limit. Each pod reports its
// directory twice a second, so some keys too many can pass. A restarted pod must find room for them.
func checkRoom(ctx context.Context, q *keysdb.Queries, percent int64) error {
	room, err := q.DirectoryRoom(ctx)
	if err != nil {
		return fmt.Errorf("read the room for keys: %w", err)
	}
	if room.Budget > 0 && room.Used >= room.Budget/100*percent {
		return &FullError{Used: room.Used, Budget: room.Budget}
	}
	return nil
}

// checkLimit returns limit if the account has reached it. The caller has locked the account's row.
func checkLimit(ctx context.Context, q *keysdb.Queries, account uuid.UUID, limit *LimitError) error {
	count, err := q.CountActiveKeys(ctx, keysdb.CountActiveKeysParams{AccountID: account, RotatedOnly: limit.Rotated})
	if err == nil && count >= int64(limit.Most) {
		return limit
	}
	return err
}

func unknownKey(err error, prefix string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &UnknownKeyError{Prefix: prefix}
	}
	return err
}

// requireTier returns an [*UnknownTierError] if name is not empty and no tier has it.
func requireTier(ctx context.Context, q *keysdb.Queries, name string) error {
	if name == "" {
		return nil
	}
	tiers, err := ReadTiers(ctx, q)
	if err != nil {
		return err
	}
	if _, exists := tiers.Named(name); !exists {
		return &UnknownTierError{Tier: name}
	}
	return nil
}

// validate checks a wanted key, except for what the database knows.
func validate(want NewKey) error {
	if err := validateText("name", want.Name, 0); err != nil {
		return err
	}
	if want.ExpiresAt != nil && !want.ExpiresAt.After(time.Now()) {
		return &InvalidError{Field: "expires_at", Detail: "must be in the future"}
	}
	if want.ExpiresAt != nil && want.ExpiresAt.UTC().Year() > lastYear {
		return &InvalidError{Field: "expires_at", Detail: fmt.Sprintf("must not be after the year %d", lastYear)}
	}
	return nil
}

func nullIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
