package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
)

// Keys is what a developer does with keys; *keys.Store is one.
type Keys interface {
	Create(ctx context.Context, want keys.NewKey) (keys.CreatedKey, error)
	Rotate(ctx context.Context, prefix string, overlap time.Duration) (keys.CreatedKey, error)
	Revoke(ctx context.Context, prefix string) error
	Page(ctx context.Context, account uuid.UUID, before string, limit int) (keys.Page, error)
	Get(ctx context.Context, prefix string) (keys.Summary, error)
}

const (
	maxKeyName = 200
	// maxOverlapSeconds is 24 hours (docs/spec.md, part 5).
	maxOverlapSeconds = 24 * 60 * 60
	defaultKeyPage    = keys.MaxPage
	notKeyPrefix      = "must be the prefix of a key"
)

// createdKey is the only answer that ever holds a key.
type createdKey struct {
	Key string `json:"key"`
	shownKey
}

// shownKey is what may be shown of a key.
type shownKey struct {
	Prefix      string     `json:"key_prefix"`
	Name        string     `json:"name"`
	Environment string     `json:"environment"`
	Tier        string     `json:"tier"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	LastUsedAt  *time.Time `json:"last_used_at,omitempty"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
}

// rotatedKey is a successor. OldKeyRevoked is sent only when it is false: the new key is valid, but the revocation of the
// old one could not be confirmed. Revoking the old key makes sure.
type rotatedKey struct {
	createdKey
	OldKeyRevoked *bool `json:"old_key_revoked,omitempty"`
}

func (s *Server) created(issued keys.CreatedKey) createdKey {
	return createdKey{issued.Key, s.shown(keys.Summary{
		Prefix: issued.Prefix, Name: issued.Name, Tier: issued.Tier, CreatedAt: issued.CreatedAt, ExpiresAt: issued.ExpiresAt,
	})}
}

func (s *Server) shown(key keys.Summary) shownKey {
	return shownKey{
		Prefix: key.Prefix, Name: key.Name, Environment: s.developer.Environment, Tier: key.Tier,
		CreatedAt: key.CreatedAt.UTC(), ExpiresAt: utc(key.ExpiresAt), LastUsedAt: utc(key.LastUsedAt), RevokedAt: utc(key.RevokedAt),
	}
}

// createKey issues a key to the developer's account.
func (s *Server) createKey(ctx context.Context, r *request) error {
	want := keys.NewKey{Account: r.session.Account, MaxLiveKeys: keys.MaxLive}
	body := readJSON(&r.http.Request)
	body.text("name", &want.Name, 1, maxKeyName)
	want.ExpiresAt = body.timestamp("expires_at")
	body.text("inherit_from", &want.InheritFrom, 1, keys.PrefixLength)
	if err := body.check("name"); err != nil {
		return err
	}
	issued, err := s.developer.Keys.Create(ctx, want)
	if err != nil && !is[*keys.UnconfirmedError](err) { // an unconfirmed key exists, and is shown only now
		return err
	}
	return writeValue(r.http, fasthttp.StatusCreated, s.created(issued))
}

// listKeys lists the account's keys, redacted, newest first.
func (s *Server) listKeys(ctx context.Context, r *request) error {
	limit, query := defaultKeyPage, readQuery(r.http)
	query.integer("limit", &limit, 1, keys.MaxPage)
	before := query.match("before", notKeyPrefix, keys.IsPrefix)
	if err := query.err(); err != nil {
		return err
	}
	page, err := s.developer.Keys.Page(ctx, r.session.AccountID, before, limit)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Keys    []shownKey `json:"keys"`
		HasMore bool       `json:"has_more"`
	}{mapped(page.Keys, s.shown), page.More})
}

// revokeKey ends a key: once this is answered no pod accepts it.
func (s *Server) revokeKey(ctx context.Context, r *request) error {
	prefix, err := s.ownKey(ctx, r)
	if err != nil {
		return err
	}
	return writeNothing(r.http, s.developer.Keys.Revoke(ctx, prefix))
}

// rotateKey issues a successor; the old key lives on for overlap_seconds, without them not at all.
func (s *Server) rotateKey(ctx context.Context, r *request) error {
	var overlap int
	if len(r.http.Request.Body()) > 0 {
		body := readJSON(&r.http.Request)
		body.integer("overlap_seconds", &overlap, 0, maxOverlapSeconds)
		if err := body.check(); err != nil {
			return err
		}
	}
	prefix, err := s.ownKey(ctx, r)
	if err != nil {
		return err
	}
	issued, err := s.developer.Keys.Rotate(ctx, prefix, time.Duration(overlap)*time.Second)
	unconfirmed := is[*keys.UnconfirmedError](err)
	if err != nil && !unconfirmed {
		return err
	}
	answer := rotatedKey{createdKey: s.created(issued)} // it exists, and is shown only now
	if unconfirmed {
		answer.OldKeyRevoked = new(bool)
	}
	return writeValue(r.http, fasthttp.StatusCreated, answer)
}

// ownKey returns the path's prefix if it is a key of the developer's account; another's is not found.
func (s *Server) ownKey(ctx context.Context, r *request) (string, error) {
	prefix := pathValue(r, "key_prefix")
	if !keys.IsPrefix(prefix) { // nor may such bytes reach the database, whose text is UTF-8
		return "", noSuchResource()
	}
	key, err := s.developer.Keys.Get(ctx, prefix)
	if err == nil && key.Account != r.session.Account {
		err = noSuchResource()
	}
	return prefix, err
}
