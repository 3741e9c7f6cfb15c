package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
)

// Keys is what a developer does with keys; *keys.Store is one.
type Keys interface {
	Create(ctx context.Context, want keys.NewKey) (keys.Issued, error)
	Rotate(ctx context.Context, prefix string, overlap time.Duration) (keys.Issued, error)
	Revoke(ctx context.Context, prefix string) error
	Page(ctx context.Context, account uuid.UUID, before string, limit int) (keys.Page, error)
	Get(ctx context.Context, prefix string) (keys.Summary, error)
}

const (
	maxKeyName = 200
	// maxOverlapSeconds is 24 hours (docs/spec.md, part 5).
	maxOverlapSeconds = 24 * 60 * 60
	defaultKeyPage    = keys.MaxPage
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

// rotatedKey is a successor. OldKeyRevoked is false, and only then sent, when not every pod is known to have heard of the
// old key's end: the successor is good, and revoking the old key makes certain.
type rotatedKey struct {
	createdKey
	OldKeyRevoked *bool `json:"old_key_revoked,omitempty"`
}

func (s *Server) created(issued keys.Issued) createdKey {
	return createdKey{Key: issued.Key, shownKey: shownKey{
		Prefix: issued.Prefix, Name: issued.Name, Environment: s.developer.Environment, Tier: issued.Tier,
		CreatedAt: issued.CreatedAt.UTC(), ExpiresAt: utc(issued.ExpiresAt),
	}}
}

func (s *Server) shown(key keys.Summary) shownKey {
	return shownKey{
		Prefix: key.Prefix, Name: key.Name, Environment: s.developer.Environment, Tier: key.Tier,
		CreatedAt: key.CreatedAt.UTC(), ExpiresAt: utc(key.ExpiresAt), LastUsedAt: utc(key.LastUsedAt), RevokedAt: utc(key.RevokedAt),
	}
}

// createKey issues a key to the developer's account.
func (s *Server) createKey(ctx context.Context, r *request, session sessions.Session) error {
	want := keys.NewKey{Account: session.Account, Most: keys.MaxLive}
	if err := decodeBody(r.http,
		bodyField{"name", true, text(&want.Name, 1, maxKeyName)},
		bodyField{"expires_at", false, timestamp(&want.ExpiresAt)},
	); err != nil {
		return err
	}
	issued, err := s.developer.Keys.Create(ctx, want)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusCreated, s.created(issued))
}

// listKeys lists the account's keys, redacted, newest first.
func (s *Server) listKeys(ctx context.Context, r *request, session sessions.Session) error {
	limit, before := defaultKeyPage, ""
	if err := decodeQuery(r.http.URI().QueryString(),
		queryInteger("limit", &limit, 1, keys.MaxPage),
		queryKeyPrefix("before", &before),
	); err != nil {
		return err
	}
	page, err := s.developer.Keys.Page(ctx, session.AccountID, before, limit)
	if err != nil {
		return ofDeveloper(err)
	}
	list := make([]shownKey, len(page.Keys))
	for i, key := range page.Keys {
		list[i] = s.shown(key)
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Keys    []shownKey `json:"keys"`
		HasMore bool       `json:"has_more"`
	}{list, page.More})
}

// revokeKey ends a key: once this is answered no pod accepts it.
func (s *Server) revokeKey(ctx context.Context, r *request, session sessions.Session) error {
	prefix, err := s.ownKey(ctx, r, session)
	if err != nil {
		return err
	}
	if err := s.developer.Keys.Revoke(ctx, prefix); err != nil {
		return ofDeveloper(err)
	}
	r.http.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// rotateKey issues a successor; the old key lives on for overlap_seconds, without them not at all.
func (s *Server) rotateKey(ctx context.Context, r *request, session sessions.Session) error {
	var overlap int
	if len(r.http.Request.Body()) > 0 {
		if err := decodeBody(r.http, bodyField{"overlap_seconds", false, integer(&overlap, 0, maxOverlapSeconds)}); err != nil {
			return err
		}
	}
	prefix, err := s.ownKey(ctx, r, session)
	if err != nil {
		return err
	}
	issued, err := s.developer.Keys.Rotate(ctx, prefix, time.Duration(overlap)*time.Second)
	var untold *keys.NotAnnouncedError
	if err != nil && !errors.As(err, &untold) { // untold, the successor exists all the same, and is shown only now
		return ofDeveloper(err)
	}
	answer := rotatedKey{createdKey: s.created(issued)}
	if untold != nil {
		answer.OldKeyRevoked = new(bool)
	}
	return writeValue(r.http, fasthttp.StatusCreated, answer)
}

// ownKey returns the path's prefix if it is a key of the developer's account; another's is not found.
func (s *Server) ownKey(ctx context.Context, r *request, session sessions.Session) (string, error) {
	prefix := pathValue(r, "key_prefix")
	if !keys.IsPrefix(prefix) { // nor may such bytes reach the database, whose text is UTF-8
		return "", notFound(ctx, r)
	}
	key, err := s.developer.Keys.Get(ctx, prefix)
	if err != nil {
		return "", ofDeveloper(err)
	}
	if key.Account != session.Account {
		return "", notFound(ctx, r)
	}
	return prefix, nil
}
