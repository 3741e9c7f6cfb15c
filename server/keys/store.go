package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/keysdb"
)

const (
	// maxNameLength is in characters, as JSON Schema counts.
	maxNameLength = 200
	// lastYear is the last one that RFC 3339 can write.
	lastYear = 9999
	// maxOverlap is how long a rotated key may outlive its successor's creation.
	maxOverlap = 24 * time.Hour
	// prefixTries bounds how often a prefix that is taken is drawn again: at a million keys one try fails with
	// probability 2⁻¹².
	prefixTries = 5

	notOfAccount = "must be the prefix of a key of the account"
)

// Announcer tells every gate of changed keys before the change is answered.
type Announcer interface {
	// Announce returns nil once no gate will accept any of these keys by an older version than the given one, and an
	// error if ctx ends before that is certain. It is called after the commit, and marks what it wrote to Redis
	// ([Reader.MarkAnnounced]).
	Announce(ctx context.Context, records ...Record) error
}

// Store changes keys, accounts and tiers.
type Store struct {
	*Reader

	pool *pgxpool.Pool
	gate Announcer
}

// NewStore returns a store on pool that announces to gate.
func NewStore(pool *pgxpool.Pool, gate Announcer) *Store {
	return &Store{Reader: NewReader(pool), pool: pool, gate: gate}
}

// NewKey asks for a key.
type NewKey struct {
	// Account names the account; it is created if there is none of that name.
	Account string
	// Name is free text, at most 200 characters.
	Name string
	// Tier is the key's own tier; empty leaves the choice to the rule of the package comment.
	Tier string
	// InheritFrom is the prefix of a key of the account, whose family the new key joins: it sees the attempts of that family.
	// Empty: a family of its own.
	InheritFrom string
	// ExpiresAt must lie in the future and before the year 10000, the last that RFC 3339 can write; it is kept to the
	// microsecond. nil for never.
	ExpiresAt *time.Time
	// Most refuses the key with a *LimitError where the account has as many live keys, neither revoked nor expired; 0 for
	// no limit.
	Most int
}

// Issued is a key just created. Key is its text, and this is the only time that it is seen.
type Issued struct {
	Key, Prefix, Account, Name, Tier string
	CreatedAt                        time.Time
	ExpiresAt                        *time.Time
}

// EnsureAccount returns the id of the account of that name, created if there is none.
func (s *Store) EnsureAccount(ctx context.Context, name string) (uuid.UUID, error) {
	if err := checkAccount(name); err != nil {
		return uuid.Nil, err
	}
	id, err := s.queries.EnsureAccount(ctx, keysdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: name})
	if err != nil {
		return uuid.Nil, fmt.Errorf("ensure account: %w", err)
	}
	return id, nil
}

// Create issues a key. Its text is random, so no gate can have asked for it before and none needs to be told.
func (s *Store) Create(ctx context.Context, want NewKey) (Issued, error) {
	if err := check(want); err != nil {
		return Issued{}, err
	}
	want.ExpiresAt = exact(want.ExpiresAt)
	var issued Issued
	err := s.retryPrefix(func() error {
		return s.transactOnTiers(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
			account, err := q.EnsureAccount(ctx, keysdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: want.Account})
			if err != nil {
				return audit.Entry{}, fmt.Errorf("ensure account: %w", err)
			}
			if err := roomForOneMore(ctx, q, account, want.Most); err != nil {
				return audit.Entry{}, err
			}
			id := uuid.Must(uuid.NewV7())
			family, err := familyOf(ctx, q, want.InheritFrom, account, id)
			if err != nil {
				return audit.Entry{}, err
			}
			issued, err = insert(ctx, q, keysdb.InsertKeyParams{
				ID: id, AccountID: account, FamilyID: family, Name: want.Name, Tier: optional(want.Tier), ExpiresAt: want.ExpiresAt,
			})
			issued.Account = want.Account
			return created(account, issued, want.InheritFrom), err
		})
	})
	if err != nil {
		return Issued{}, err
	}
	return issued, nil
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

// Rotate issues a successor to the key of that prefix: same account, family, name, tier and expiry. The old key is
// accepted for another overlap (0 to 24 h), and from the answer on not at all if overlap is 0. A key is rotated once: again
// is a *RetiredKeyError, since its expiry is by then the end of the overlap, which no successor may inherit. A
// *NotAnnouncedError comes with the successor all the same: it exists. An account at its limit can rotate; a *LimitError
// says that too many rotated keys live on already.
func (s *Store) Rotate(ctx context.Context, prefix string, overlap time.Duration) (Issued, error) {
	if overlap < 0 || overlap > maxOverlap {
		return Issued{}, &InvalidError{Field: "overlap", Detail: "must be between 0 and 24 hours"}
	}
	var issued Issued
	var old keysdb.LockKeyRow
	err := s.retryPrefix(func() error {
		return s.transactOnTiers(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
			var err error
			if old, err = q.LockKey(ctx, prefix); err != nil {
				return audit.Entry{}, unknownKey(err, prefix)
			}
			if old.Expired || old.RevokedAt != nil || old.RotatedAt != nil {
				return audit.Entry{}, &RetiredKeyError{Prefix: prefix}
			}
			if err := roomForRotated(ctx, q, old.AccountID, overlap); err != nil {
				return audit.Entry{}, err
			}
			issued, err = insert(ctx, q, keysdb.InsertKeyParams{
				ID: uuid.Must(uuid.NewV7()), AccountID: old.AccountID, FamilyID: old.FamilyID, Name: old.Name,
				Tier: old.Tier, ExpiresAt: old.ExpiresAt,
			})
			issued.Account = old.Account
			if err != nil {
				return audit.Entry{}, err
			}
			return audit.Entry{
				Account: old.AccountID, Action: audit.KeyRotate, Target: prefix,
				Detail: map[string]any{"successor": issued.Prefix, "overlap_seconds": overlap.Seconds()},
			}, retire(ctx, q, old.ID, prefix, overlap)
		})
	})
	if err != nil {
		return Issued{}, err
	}
	return issued, s.announceKey(ctx, old.ID)
}

// retire ends a key that has a successor, at once or after the overlap.
func retire(ctx context.Context, q *keysdb.Queries, id uuid.UUID, prefix string, overlap time.Duration) error {
	var err error
	if overlap == 0 {
		_, err = q.RevokeKey(ctx, prefix)
	} else {
		err = q.RetireKey(ctx, keysdb.RetireKeyParams{ID: id, Overlap: overlap.Microseconds()})
	}
	if err != nil {
		return fmt.Errorf("retire key: %w", err)
	}
	return nil
}

// Revoke ends the key of that prefix. When it returns nil, no gate accepts the key any more. Revoking twice is no
// mistake: the second call makes certain what the first may have left uncertain (*NotAnnouncedError).
func (s *Store) Revoke(ctx context.Context, prefix string) error {
	return s.change(ctx, s.transact, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		_, err := q.RevokeKey(ctx, prefix)
		return audit.Entry{Action: audit.KeyRevoke, Detail: map[string]any{"repeated": old.RevokedAt != nil}}, err
	})
}

// SetTier gives a key a tier of its own, or with an empty name takes it away. When it returns nil, every gate applies it.
func (s *Store) SetTier(ctx context.Context, prefix, tier string) error {
	return s.change(ctx, s.transactOnTiers, prefix, func(q *keysdb.Queries, old keysdb.LockKeyRow) (audit.Entry, error) {
		_, err := q.SetKeyTier(ctx, keysdb.SetKeyTierParams{Prefix: prefix, Tier: optional(tier)})
		detail := map[string]any{"tier": optional(tier), "was": old.Tier}
		return audit.Entry{Action: audit.KeySetTier, Detail: detail}, unknownTier(err, tier)
	})
}

// insert draws a key's text and stores its hash. The tier that applies is read back, since the caller may have left it
// to the rule.
func insert(ctx context.Context, q *keysdb.Queries, arg keysdb.InsertKeyParams) (Issued, error) {
	key := generate()
	hash := sha256.Sum256([]byte(key))
	arg.Prefix, arg.Hash = prefixOf(key), hash[:]
	created, err := q.InsertKey(ctx, arg)
	if err != nil {
		var tier string
		if arg.Tier != nil {
			tier = *arg.Tier
		}
		return Issued{}, fmt.Errorf("insert key: %w", unknownTier(err, tier))
	}
	tier, err := q.EffectiveTier(ctx, arg.ID)
	if err != nil {
		return Issued{}, fmt.Errorf("read tier: %w", err)
	}
	return Issued{
		Key: key, Prefix: arg.Prefix, Name: arg.Name, Tier: tier, CreatedAt: created, ExpiresAt: arg.ExpiresAt,
	}, nil
}

// change runs one statement on the key of that prefix, commits, and announces.
func (s *Store) change(
	ctx context.Context, transact transaction, prefix string,
	statement func(*keysdb.Queries, keysdb.LockKeyRow) (audit.Entry, error),
) error {
	var old keysdb.LockKeyRow
	err := transact(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
		var err error
		if old, err = q.LockKey(ctx, prefix); err != nil {
			return audit.Entry{}, unknownKey(err, prefix)
		}
		entry, err := statement(q, old)
		entry.Account, entry.Target = old.AccountID, prefix
		return entry, err
	})
	if err != nil {
		return err
	}
	return s.announceKey(ctx, old.ID)
}

// created is the record of a key's creation.
func created(account uuid.UUID, issued Issued, inheritFrom string) audit.Entry {
	detail := map[string]any{"name": issued.Name, "tier": issued.Tier}
	if issued.ExpiresAt != nil {
		detail["expires_at"] = issued.ExpiresAt.UTC()
	}
	if inheritFrom != "" {
		detail["inherit_from"] = inheritFrom
	}
	return audit.Entry{Account: account, Action: audit.KeyCreate, Target: issued.Prefix, Detail: detail}
}

// announceKey reads the key as committed (or as changed since: higher versions are as good) and announces it.
func (s *Store) announceKey(ctx context.Context, id uuid.UUID) error {
	start := time.Now()
	row, err := s.queries.RecordByID(ctx, id)
	if err == nil {
		err = s.gate.Announce(ctx, recordOf(row))
	}
	if err != nil {
		return &NotAnnouncedError{Keys: 1, Waited: time.Since(start), Err: err}
	}
	return nil
}

// transaction is [Store.transact] or [Store.transactOnTiers].
type transaction func(ctx context.Context, do func(*keysdb.Queries) (audit.Entry, error)) error

// transactOnTiers is transact for what no tier change may overlap. A revocation does not wait for one.
func (s *Store) transactOnTiers(ctx context.Context, do func(*keysdb.Queries) (audit.Entry, error)) error {
	return s.transact(ctx, func(q *keysdb.Queries) (audit.Entry, error) {
		if err := q.ShareTierLock(ctx); err != nil {
			return audit.Entry{}, fmt.Errorf("lock tiers: %w", err)
		}
		return do(q)
	})
}

// transact runs do in a transaction, and records what it did there.
func (s *Store) transact(ctx context.Context, do func(*keysdb.Queries) (audit.Entry, error)) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		entry, err := do(s.queries.WithTx(tx))
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

// retryPrefix repeats create while the prefix that it drew was taken.
func (s *Store) retryPrefix(create func() error) error {
	var err error
	for range prefixTries {
		err = create()
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName != "api_keys_prefix_key" {
			return err
		}
	}
	return err
}

func unknownKey(err error, prefix string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &UnknownKeyError{Prefix: prefix}
	}
	return err
}

// unknownTier turns the database's refusal of a reference to a tier into the type that callers know.
func unknownTier(err error, tier string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23503" && pg.ConstraintName == "api_keys_tier_fkey" {
		return &UnknownTierError{Tier: tier}
	}
	return err
}

func check(want NewKey) error {
	if err := checkAccount(want.Account); err != nil {
		return err
	}
	if err := checkText("name", want.Name); err != nil {
		return err
	}
	if want.InheritFrom != "" && !IsPrefix(want.InheritFrom) { // such bytes must not reach the database, whose text is UTF-8
		return &InvalidError{Field: "inherit_from", Detail: notOfAccount}
	}
	switch {
	case want.ExpiresAt == nil:
		return nil
	case !want.ExpiresAt.After(time.Now()):
		return &InvalidError{Field: "expires_at", Detail: "must lie in the future"}
	case want.ExpiresAt.UTC().Year() > lastYear:
		return &InvalidError{Field: "expires_at", Detail: fmt.Sprintf("must not lie beyond the year %d", lastYear)}
	default:
		return nil
	}
}

// exact is a time as PostgreSQL keeps it: rounded down, since rounding up could leave the last year.
func exact(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	kept := at.UTC().Truncate(time.Microsecond)
	return &kept
}

func checkAccount(name string) error {
	if name == "" {
		return &InvalidError{Field: "account", Detail: "must not be empty"}
	}
	return checkText("account", name)
}

// checkText refuses what PostgreSQL's text cannot hold, and what nobody would read.
func checkText(field, text string) error {
	switch {
	case utf8.RuneCountInString(text) > maxNameLength:
		return &InvalidError{Field: field, Detail: fmt.Sprintf("must not be longer than %d characters", maxNameLength)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return &InvalidError{Field: field, Detail: "must be UTF-8 text without control characters"}
	}
	return nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
