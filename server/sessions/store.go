package sessions

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/sessionsdb"
)

const (
	// maxTouchInterval bounds how old a stored last use may be: a session in use is written once a minute.
	maxTouchInterval = time.Minute
	// tokenLength is the length of newToken's text: 32 bytes in base64.
	tokenLength = 43
	// pruned bounds the expired rows that a new session deletes.
	pruned = 100
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
	mac      []byte // key of tokens' checks
	idle     time.Duration
	absolute time.Duration
	now      func() time.Time
}

// NewStore returns a store. A session ends idle after its last use, or absolute after its start, whichever is earlier. The
// last use is stored once a minute (once in a tenth of idle if that is shorter), so a session can end that much early.
// Without positive times no session can be created. All pods have the same secret.
func NewStore(db *pgxpool.Pool, secret []byte, idle, absolute time.Duration, now func() time.Time) *Store {
	mac := deriveKey(secret, "examprep session token v1")
	return &Store{db: db, queries: sessionsdb.New(db), mac: mac, idle: idle, absolute: absolute, now: now}
}

// Create starts a session and returns the token for the cookie. The token is stored nowhere.
func (s *Store) Create(ctx context.Context, session Session) (string, error) {
	return s.create(ctx, s.queries, session)
}

// create also deletes expired rows: only sign-ins add any.
func (s *Store) create(ctx context.Context, queries *sessionsdb.Queries, session Session) (string, error) {
	if s.idle <= 0 || s.absolute <= 0 {
		return "", fmt.Errorf("create session: the time to live %s is not positive", min(s.idle, s.absolute))
	}
	now, token := s.now().UTC(), s.newSessionToken()
	if err := queries.PruneSessions(ctx, sessionsdb.PruneSessionsParams{Now: now, Most: pruned}); err != nil {
		return "", fmt.Errorf("prune sessions: %w", err)
	}
	if err := queries.InsertSession(ctx, sessionsdb.InsertSessionParams{
		Hash: hashOf(token), AccountID: session.AccountID, Issuer: session.Issuer, Subject: session.Subject,
		Email: session.Email, CreatedAt: now, ExpiresAt: now.Add(s.absolute),
	}); err != nil {
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
	row, err := s.queries.LookUpSession(ctx, hashOf(token))
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, &NoSessionError{}
	}
	if err != nil {
		return Session{}, fmt.Errorf("read session: %w", err)
	}
	now := s.now()
	unused := now.Sub(row.LastUsedAt)
	if unused >= s.idle || !now.Before(row.ExpiresAt) {
		return Session{}, &NoSessionError{}
	}
	if unused >= min(maxTouchInterval, s.idle/10) {
		live, err := s.queries.TouchSession(ctx, sessionsdb.TouchSessionParams{Hash: hashOf(token), LastUsedAt: now})
		if err != nil {
			return Session{}, fmt.Errorf("record use of session: %w", err)
		}
		if live == 0 { // it ended after it was read
			return Session{}, &NoSessionError{}
		}
	}
	return Session{
		AccountID: row.AccountID, Account: row.Account, Issuer: row.Issuer, Subject: row.Subject, Email: row.Email,
		CreatedAt: row.CreatedAt.UTC(),
	}, nil
}

// End signs one session out. To end a session twice, or none, is not an error.
func (s *Store) End(ctx context.Context, token string) error {
	return end(ctx, s.queries, token)
}

func end(ctx context.Context, queries *sessionsdb.Queries, token string) error {
	if token == "" {
		return nil
	}
	if err := queries.DeleteSession(ctx, hashOf(token)); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// newSessionToken returns random text followed by its check.
func (s *Store) newSessionToken() string {
	random := newToken()
	return random + s.checkOf(random)
}

// Authentic reports whether an installation with this secret made the token. It reads no session: that may have ended. So a
// request with a made-up token costs no look-up and shares no bucket with a developer's.
func (s *Store) Authentic(token []byte) bool {
	if len(token) <= tokenLength {
		return false
	}
	return hmac.Equal(token[tokenLength:], []byte(s.checkOf(string(token[:tokenLength]))))
}

func (s *Store) checkOf(random string) string {
	mac := hmac.New(sha256.New, s.mac)
	_, _ = mac.Write([]byte(random)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// newToken returns 256 random bits as URL-safe text.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
