package sessions

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/sessionsdb"
)

const (
	// maxTouchInterval limits how old a stored last use can be.
	maxTouchInterval = time.Minute
	// forgetTimeout bounds how long a sign-in deletes expired rows, forgetMost how many of each table.
	forgetTimeout = time.Second
	forgetMost    = 1000
)

// Session is a signed-in developer.
type Session struct {
	AccountID uuid.UUID
	// Account is the account's name.
	Account string
	Issuer  string
	Subject string
	// Email is an address that the provider vouches for; empty when it does not. For display only.
	Email     string
	CreatedAt time.Time
}

// Store keeps sessions in PostgreSQL.
type Store struct {
	db       *pgxpool.Pool
	queries  *sessionsdb.Queries
	tokens   cookieCipher // a token is an encrypted empty value: random, and recognized without a look-up
	idle     time.Duration
	absolute time.Duration
	now      func() time.Time
}

// NewStore returns a store. A session ends idle after its last use, or absolute after its start, whichever is earlier. The
// last use is stored once a minute (once in a tenth of idle if that is shorter), so a session can end that much early.
// All pods have the same secret.
func NewStore(db *pgxpool.Pool, secret []byte, idle, absolute time.Duration, now func() time.Time) *Store {
	return &Store{
		db: db, queries: sessionsdb.New(db), tokens: newCookieCipher(secret, "examprep session token v2"),
		idle: idle, absolute: absolute, now: now,
	}
}

// Create starts a session and returns the token for the cookie. The token is stored nowhere.
func (s *Store) Create(ctx context.Context, session Session) (string, error) {
	now, token := s.now(), s.tokens.encrypt(nil)
	err := s.queries.InsertSession(ctx, sessionsdb.InsertSessionParams{
		Hash: hashOf(token), AccountID: session.AccountID, Issuer: session.Issuer, Subject: session.Subject,
		Email: session.Email, Now: now, ExpiresAt: now.Add(s.absolute),
	})
	if err != nil {
		return "", fmt.Errorf("store session: %w", err)
	}
	return token, nil
}

// Lookup returns the session of a token, and records its use. A token without a session, or of one that has ended, is a
// *NoSessionError.
func (s *Store) Lookup(ctx context.Context, token string) (Session, error) {
	if !s.Authentic([]byte(token)) {
		return Session{}, &NoSessionError{}
	}
	now := s.now()
	row, err := s.queries.LookUpSession(ctx, sessionsdb.LookUpSessionParams{
		Hash: hashOf(token), Now: now, UsedAfter: now.Add(-s.idle),
	})
	if err == nil && now.Sub(row.LastUsedAt) >= min(maxTouchInterval, s.idle/10) {
		_, err = s.queries.TouchSession(ctx, sessionsdb.TouchSessionParams{Hash: hashOf(token), Now: now})
	}
	if errors.Is(err, pgx.ErrNoRows) { // or it ended between the two
		return Session{}, &NoSessionError{}
	}
	if err != nil {
		return Session{}, fmt.Errorf("look up session: %w", err)
	}
	return Session{
		AccountID: row.AccountID, Account: row.Account, Issuer: row.Issuer, Subject: row.Subject, Email: row.Email,
		CreatedAt: row.CreatedAt.UTC(),
	}, nil
}

// End signs one session out. To end a session twice, or none, is not an error.
func (s *Store) End(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	return s.queries.DeleteSession(ctx, hashOf(token))
}

// Authentic reports whether an installation with this secret made the token. It reads no session: that may have ended. So a
// request with a made-up token costs no look-up and shares no bucket with a developer's.
func (s *Store) Authentic(token []byte) bool {
	_, ok := s.tokens.decrypt(string(token))
	return ok
}

// Forget deletes expired sessions and used sign-ins. Only sign-ins add any, so each sign-in calls it. A row that PostgreSQL does not let
// it delete, or that another transaction locks, costs no other: a later call deletes it. PostgreSQL logs why it refuses.
func (s *Store) Forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	now := s.now()
	old, err := s.queries.ExpiredSessions(ctx, sessionsdb.ExpiredSessionsParams{Now: now, Most: forgetMost})
	if err == nil {
		err = postgres.Divide(old, func(rows [][]byte) error { return s.queries.DropSessions(ctx, rows) }, func([]byte, error) {})
	}
	if err != nil {
		return fmt.Errorf("delete expired sessions: %w", err)
	}
	used, err := s.queries.ExpiredSignIns(ctx, sessionsdb.ExpiredSignInsParams{Now: now, Most: forgetMost})
	if err == nil {
		err = postgres.Divide(used, func(rows [][]byte) error { return s.queries.DropSignIns(ctx, rows) }, func([]byte, error) {})
	}
	if err != nil {
		return fmt.Errorf("delete used sign-ins: %w", err)
	}
	return nil
}

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
