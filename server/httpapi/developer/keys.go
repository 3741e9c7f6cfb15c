package developer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/keys"
)

// Keys is what a developer does with keys; *keys.Store is one.
type Keys interface {
	KeyOverview
	Create(ctx context.Context, account uuid.UUID, want keys.NewKey) (keys.CreatedKey, error)
	Rotate(ctx context.Context, account uuid.UUID, prefix string, overlap time.Duration) (keys.CreatedKey, error)
	Revoke(ctx context.Context, account uuid.UUID, prefix string) error
	Page(ctx context.Context, account uuid.UUID, before string, limit int) (keys.Page, error)
}

const (
	maxKeyName = 200
	// maxOverlapSeconds is 24 hours (docs/spec.md, part 5).
	maxOverlapSeconds = 24 * 60 * 60
	notKeyPrefix      = "must be the prefix of a key"
)

type keyHandlers struct {
	store       Keys
	environment string
}

func (h *keyHandlers) routes() []endpoint.Route {
	return append(
		roleFor(accounts.Viewer, session(fasthttp.MethodGet, "/v1/developer/keys", "listKeys", endpoint.Time, h.list)),
		roleFor(accounts.Developer,
			session(fasthttp.MethodPost, "/v1/developer/keys", "createKey", endpoint.Body, h.create),
			session(fasthttp.MethodDelete, "/v1/developer/keys/{key_prefix}", "revokeKey", endpoint.Time, h.revoke),
			session(fasthttp.MethodPost, "/v1/developer/keys/{key_prefix}/rotate", "rotateKey", endpoint.Body, h.rotate),
		)...)
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

func (h *keyHandlers) shown(key keys.Summary) shownKey {
	return shownKey{key.Prefix, key.Name, h.environment, key.Tier, key.CreatedAt, key.ExpiresAt, key.LastUsedAt, key.RevokedAt}
}

// createdKey is the only answer that ever holds a key. OldKeyRevoked is sent only when it is false: the new key is valid, but
// the revocation of the rotated one could not be confirmed. Revoking the old key makes sure.
type createdKey struct {
	Key string `json:"key"`
	shownKey
	OldKeyRevoked *bool `json:"old_key_revoked,omitempty"`
}

func (h *keyHandlers) created(issued keys.CreatedKey) createdKey {
	return createdKey{Key: issued.Key, shownKey: shownKey{
		Prefix: issued.Prefix, Name: issued.Name, Environment: h.environment, Tier: issued.Tier,
		CreatedAt: issued.CreatedAt, ExpiresAt: issued.ExpiresAt,
	}}
}

func (h *keyHandlers) create(ctx context.Context, r *endpoint.Request) error {
	var want keys.NewKey
	body := r.JSON()
	body.Text("name", &want.Name, 1, maxKeyName)
	want.ExpiresAt = body.Time("expires_at")
	body.Text("inherit_from", &want.InheritFrom, 1, keys.PrefixLength)
	if err := body.Check("name"); err != nil {
		return err
	}
	issued, err := h.store.Create(ctx, r.Session.AccountID, want)
	if unconfirmed(err) { // the key exists, and is shown only now
		err = nil
	}
	return r.Send(fasthttp.StatusCreated, h.created(issued), err)
}

// list lists the account's keys, redacted, newest first.
func (h *keyHandlers) list(ctx context.Context, r *endpoint.Request) error {
	limit, query := keys.MaxPage, r.Query()
	query.Integer("limit", &limit, 1, keys.MaxPage)
	before := query.Match("before", notKeyPrefix, keys.IsPrefix)
	if err := query.Check(); err != nil {
		return err
	}
	page, err := h.store.Page(ctx, r.Session.AccountID, before, limit)
	return r.OK(struct {
		Keys    []shownKey `json:"keys"`
		HasMore bool       `json:"has_more"`
	}{mapped(page.Keys, h.shown), page.More}, err)
}

// revoke revokes a key: after its response no pod accepts the key.
func (h *keyHandlers) revoke(ctx context.Context, r *endpoint.Request) error {
	prefix, err := keyPrefix(r)
	if err != nil {
		return err
	}
	return r.NoContent(h.store.Revoke(ctx, r.Session.AccountID, prefix))
}

// rotate issues a successor; the old key lives on for overlap_seconds, without them not at all.
func (h *keyHandlers) rotate(ctx context.Context, r *endpoint.Request) error {
	var overlap int
	if len(r.Body) > 0 {
		body := r.JSON()
		body.Integer("overlap_seconds", &overlap, 0, maxOverlapSeconds)
		if err := body.Check(); err != nil {
			return err
		}
	}
	prefix, err := keyPrefix(r)
	if err != nil {
		return err
	}
	issued, err := h.store.Rotate(ctx, r.Session.AccountID, prefix, time.Duration(overlap)*time.Second)
	answer := h.created(issued)
	if unconfirmed(err) { // the key exists, and is shown only now
		answer.OldKeyRevoked, err = new(bool), nil
	}
	return r.Send(fasthttp.StatusCreated, answer, err)
}

// keyPrefix returns the prefix of the path. Other bytes must not reach the database.
func keyPrefix(r *endpoint.Request) (string, error) {
	prefix := r.Param("key_prefix")
	if !keys.IsPrefix(prefix) {
		return "", apierror.NotFound()
	}
	return prefix, nil
}

// unconfirmed reports whether a change is committed, but not every pod has applied it for certain.
func unconfirmed(err error) bool {
	_, ok := errors.AsType[*keys.UnconfirmedError](err)
	return ok
}
