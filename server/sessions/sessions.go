package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Session is a signed-in developer.
type Session struct {
	AccountID uuid.UUID `json:"account_id"`
	// Account is the account's name.
	Account string `json:"account"`
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Email is an address that the provider vouches for; empty when it does not. For display only.
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"created_at"`

	// name is the session's in Redis, known of one that was looked up.
	name string
}

// timeout bounds each call to Redis.
const timeout = 2 * time.Second

// ClientOptions sets what the sessions' Redis client needs, for redisurl.Open: a request waits, so that a call ends with
// its deadline, and a server that says nothing holds it up for no longer than the time-outs.
func ClientOptions(o *redis.UniversalOptions) {
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.DialerRetries = 1
	o.MaxRetries = 1
}

// Store keeps sessions in Redis.
type Store struct {
	redis    redis.UniversalClient
	prefix   string
	idle     time.Duration
	absolute time.Duration
	now      func() time.Time
}

// NewStore returns a store whose names begin with prefix. A session ends idle after its last use, and absolute after
// its beginning, whatever comes first; where one of them is not above 0 no session can be created.
func NewStore(client redis.UniversalClient, prefix string, idle, absolute time.Duration, now func() time.Time) *Store {
	return &Store{redis: client, prefix: prefix, idle: idle, absolute: absolute, now: now}
}

// Create begins a session and returns the token for the cookie. The token is stored nowhere.
func (s *Store) Create(ctx context.Context, session Session) (string, error) {
	life := min(s.idle, s.absolute)
	if life <= 0 { // to Redis, for ever
		return "", fmt.Errorf("create session: %s is no time to live", life)
	}
	session.CreatedAt = s.now().UTC()
	value, err := json.Marshal(session)
	if err != nil {
		return "", fmt.Errorf("encode session: %w", err)
	}
	token := newToken()
	name, all := s.name(token), s.ofAccount(session.AccountID)
	// First the session, then its place among the account's: in a cluster they are on two nodes, and a sign-out everywhere
	// that came in between would strike a session off the list that then begins.
	if err := s.redis.Set(ctx, name, value, life).Err(); err != nil {
		return "", &UnavailableError{"store session", err}
	}
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRemRangeByScore(ctx, all, "-inf", strconv.FormatInt(session.CreatedAt.Unix(), 10))
		p.ZAdd(ctx, all, redis.Z{Score: float64(session.CreatedAt.Add(s.absolute).Unix()), Member: name})
		p.Expire(ctx, all, s.absolute)
		return nil
	})
	if err != nil {
		return "", &UnavailableError{"store session", err}
	}
	return token, nil
}

// Lookup returns the session of a token and begins its idle time anew, which never reaches beyond its absolute end.
func (s *Store) Lookup(ctx context.Context, token string) (Session, error) {
	if token == "" {
		return Session{}, &NoSessionError{}
	}
	name := s.name(token)
	value, err := s.redis.Get(ctx, name).Bytes()
	if errors.Is(err, redis.Nil) {
		return Session{}, &NoSessionError{}
	}
	if err != nil {
		return Session{}, &UnavailableError{"read session", err}
	}
	var session Session
	if err := json.Unmarshal(value, &session); err != nil {
		return Session{}, fmt.Errorf("decode session: %w", err)
	}
	left := session.CreatedAt.Add(s.absolute).Sub(s.now())
	if left <= 0 {
		return Session{}, &NoSessionError{}
	}
	// What ended since it was read is not brought back: nothing is set but a time, and only on what is there.
	there, err := s.redis.PExpire(ctx, name, min(s.idle, left)).Result()
	if err != nil {
		return Session{}, &UnavailableError{"prolong session", err}
	}
	if !there {
		return Session{}, &NoSessionError{}
	}
	session.name = name
	return session, nil
}

// End signs one session out. Ending it twice, or none, is no error.
func (s *Store) End(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	name := s.name(token)
	value, err := s.redis.GetDel(ctx, name).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return &UnavailableError{"end session", err}
	}
	var session Session
	if err := json.Unmarshal(value, &session); err != nil {
		return fmt.Errorf("decode session: %w", err)
	}
	// It has ended, and falls off the list with time: to fail now would be to have the person try again without a session.
	_ = s.redis.ZRem(ctx, s.ofAccount(session.AccountID), name).Err()
	return nil
}

// EndAll signs the session's account out everywhere. A session that could not be ended stays in the account's list, so
// that the next call finds it; the given one, if it was looked up, ends last, so that its owner can make that call.
func (s *Store) EndAll(ctx context.Context, session Session) error {
	all := s.ofAccount(session.AccountID)
	names, err := s.redis.ZRange(ctx, all, 0, -1).Result()
	if err != nil {
		return &UnavailableError{"list sessions", err}
	}
	others := slices.DeleteFunc(names, func(name string) bool { return name == session.name })
	if err := s.endNamed(ctx, all, others); err != nil || session.name == "" {
		return err
	}
	return s.endNamed(ctx, all, []string{session.name})
}

// endNamed ends sessions, and strikes those that have ended off the list all. In a cluster they are on other nodes than
// the list, each of which may be away.
func (s *Store) endNamed(ctx context.Context, all string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	ends, failed := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			p.Del(ctx, name)
		}
		return nil
	})
	var ended []any
	for i, end := range ends {
		if end.Err() == nil {
			ended = append(ended, names[i])
		}
	}
	if len(ended) > 0 {
		// What has ended may stay on the list: it falls off with time. To fail for that would be to have the person try
		// again without a session.
		_ = s.redis.ZRem(ctx, all, ended...).Err()
	}
	if failed != nil {
		return &UnavailableError{"end sessions", failed}
	}
	return nil
}

func (s *Store) name(token string) string { return s.prefix + "session:" + hashed(token) }

// ofAccount names the sorted set of an account's sessions, scored by their absolute end in Unix seconds.
func (s *Store) ofAccount(account uuid.UUID) string { return s.prefix + "sessions:" + account.String() }

// newToken returns 256 random bits as URL-safe text.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
