package sessions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/accounts"
	"examprep.dev/server/postgres/sessionsdb"
)

// maxTouchInterval limits how old a stored last use can be.
const maxTouchInterval = time.Minute

// Session is a signed-in person, who works in an account.
type Session struct {
	accounts.Person
	// AccountID identifies the account. It is zero, and Account and Role are empty, for a person who has chosen none yet.
	AccountID uuid.UUID
	Account   string        // the account's name
	Role      accounts.Role // the person's in the account, as it was at the look-up
	CreatedAt time.Time
}

// Listed is a session of a person as the person sees it.
type Listed struct {
	Account               string // the account's name; empty for none
	CreatedAt, LastUsedAt time.Time
	Current               bool // reports whether it is the session of the token that the list was asked for with
}

// MaxSessions is how many sessions a person has. One more ends the oldest.
const MaxSessions = 100

// Config has the settings of sessions.
type Config struct {
	Secret []byte // of at least 32 bytes; all pods have the same
	Issuer string // the provider's; sessions of another one are none
	// A session ends Idle after its last use, or Lifetime after its start, whichever is earlier.
	Idle, Lifetime time.Duration
	Now            func() time.Time
}

// Store keeps sessions in PostgreSQL.
type Store struct {
	db      *pgxpool.Pool
	queries *sessionsdb.Queries
	tokens  cookieCipher // a token is an encrypted claim: random, and recognized without a look-up
	config  Config
}

// NewStore returns a store. The last use of a session is stored once a minute (once in a tenth of the idle time if that is shorter), so a
// session can end that much early.
func NewStore(db *pgxpool.Pool, config Config) *Store {
	return &Store{
		db: db, queries: sessionsdb.New(db), tokens: newCookieCipher(config.Secret, "examprep session token v3"), config: config,
	}
}

func (s *Store) now() time.Time { return s.config.Now() }

// Create starts a session and returns the token for the cookie. The token is stored nowhere. If the person has [MaxSessions], the
// oldest ends.
func (s *Store) Create(ctx context.Context, session Session) (string, error) {
	now := s.now()
	ends := now.Add(s.config.Lifetime)
	token := s.tokens.encrypt(claim{ends, nameOf(session.Person)}.encode())
	err := s.queries.DropOldSessions(ctx, sessionsdb.DropOldSessionsParams{
		Issuer: session.Issuer, Subject: session.Subject, Kept: MaxSessions - 1,
	})
	if err != nil {
		return "", fmt.Errorf("end old sessions: %w", err)
	}
	err = s.queries.InsertSession(ctx, sessionsdb.InsertSessionParams{
		Hash: hashOf(token), AccountID: uuid.NullUUID{UUID: session.AccountID, Valid: session.AccountID != uuid.Nil},
		Issuer: session.Issuer, Subject: session.Subject, Email: session.Email, Now: now, ExpiresAt: ends,
	})
	if err != nil {
		return "", fmt.Errorf("store session: %w", err)
	}
	return token, nil
}

// Lookup returns the session of a token, and records its use. A token without a session, or of one that has ended, is a
// *NoSessionError.
func (s *Store) Lookup(ctx context.Context, token string) (Session, error) {
	if _, ok := s.Authentic([]byte(token)); !ok {
		return Session{}, &NoSessionError{}
	}
	now := s.now()
	row, err := s.queries.LookUpSession(ctx, sessionsdb.LookUpSessionParams{
		Hash: hashOf(token), Issuer: s.config.Issuer, Now: now, UsedAfter: now.Add(-s.config.Idle),
	})
	if err == nil && now.Sub(row.LastUsedAt) >= min(maxTouchInterval, s.config.Idle/10) {
		_, err = s.queries.TouchSession(ctx, sessionsdb.TouchSessionParams{Hash: hashOf(token), Now: now})
	}
	if errors.Is(err, pgx.ErrNoRows) { // or it ended between the two
		return Session{}, &NoSessionError{}
	}
	if err != nil {
		return Session{}, fmt.Errorf("look up session: %w", err)
	}
	return Session{
		Person:    accounts.Person{Issuer: row.Issuer, Subject: row.Subject, Email: row.Email},
		AccountID: row.AccountID.UUID, Account: row.Account, Role: accounts.Role(row.Role), CreatedAt: row.CreatedAt.UTC(),
	}, nil
}

// List returns the sessions of the person of a session, the newest first, at most 100. token is the session's.
func (s *Store) List(ctx context.Context, token string, session Session) ([]Listed, error) {
	now := s.now()
	rows, err := s.queries.SessionsOf(ctx, sessionsdb.SessionsOfParams{
		Issuer: session.Issuer, Subject: session.Subject, Now: now, UsedAfter: now.Add(-s.config.Idle), Page: MaxSessions,
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	listed, own := make([]Listed, len(rows)), hashOf(token)
	for i, row := range rows {
		listed[i] = Listed{row.Account, row.CreatedAt.UTC(), row.LastUsedAt.UTC(), bytes.Equal(row.Hash, own)}
	}
	return listed, nil
}

// End signs one session out. To end a session twice, or none, is not an error.
func (s *Store) End(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	return s.queries.DeleteSession(ctx, hashOf(token))
}

// Authentic reports whether an installation with this secret made the token, and the lifetime of the session has not ended. It reads no
// session: that may have ended earlier. So a request with a made-up token costs no look-up. All tokens of a person have the same name
// of the person, so requests count for the person, however many sessions it has.
func (s *Store) Authentic(token []byte) (person []byte, ok bool) {
	value, ok := s.tokens.decrypt(string(token))
	if !ok {
		return nil, false
	}
	made, ok := decodeClaim(value)
	if !ok || !s.now().Before(made.ends) {
		return nil, false
	}
	return made.person[:], true
}

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
