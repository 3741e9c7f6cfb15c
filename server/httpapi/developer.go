package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/webhooks"
)

// Developer is what the routes under /v1/developer stand on: signed-in people manage keys and webhooks there.
type Developer struct {
	SignIn   SignIn
	Sessions Sessions
	Keys     Keys
	Webhooks Webhooks
	// Environment is production or sandbox, told with each key.
	Environment string
	// SessionLifetime is the cookie's: the session's absolute time-out.
	SessionLifetime time.Duration
}

// developerRoutes is empty where no OpenID Connect provider is configured: the paths do not exist then.
func (s *Server) developerRoutes() []route {
	if s.developer == nil {
		return nil
	}
	const (
		get, post, del = fasthttp.MethodGet, fasthttp.MethodPost, fasthttp.MethodDelete
		waits          = true
	)
	return []route{
		{get, "/", "openConsole", accessOpen, !waits, openConsole},
		{get, "/v1/developer/sign-in", "beginSignIn", accessOpen, waits, s.beginSignIn},
		{get, "/v1/developer/callback", "completeSignIn", accessOpen, waits, s.completeSignIn},
		{get, sessionPath, "getSession", accessOpen, waits, s.signedIn(s.getSession)},
		{del, sessionPath, "deleteSession", accessOpen, waits, s.signedIn(s.deleteSession)},
		{post, "/v1/developer/keys", "createKey", accessOpen, waits, s.signedIn(s.createKey)},
		{get, "/v1/developer/keys", "listKeys", accessOpen, waits, s.signedIn(s.listKeys)},
		{del, "/v1/developer/keys/{key_prefix}", "revokeKey", accessOpen, waits, s.signedIn(s.revokeKey)},
		{post, "/v1/developer/keys/{key_prefix}/rotate", "rotateKey", accessOpen, waits, s.signedIn(s.rotateKey)},
		{post, "/v1/developer/webhooks", "createWebhook", accessOpen, waits, s.signedIn(s.createWebhook)},
		{get, "/v1/developer/webhooks", "listWebhooks", accessOpen, waits, s.signedIn(s.listWebhooks)},
		{get, "/v1/developer/webhooks/{id}", "getWebhook", accessOpen, waits, s.signedIn(s.getWebhook)},
		{del, "/v1/developer/webhooks/{id}", "deleteWebhook", accessOpen, waits, s.signedIn(s.deleteWebhook)},
		{post, "/v1/developer/webhooks/{id}/rotate-secret", "rotateWebhookSecret", accessOpen, waits, s.signedIn(s.rotateWebhookSecret)},
	}
}

// openConsole sends a person who came to the bare address to where signing in begins.
func openConsole(_ context.Context, r *request) error {
	redirect(r.http, "/v1/developer/sign-in")
	return nil
}

// Keys is what a developer does with keys; *keys.Store is one.
type Keys interface {
	Create(ctx context.Context, want keys.NewKey) (keys.Issued, error)
	Rotate(ctx context.Context, prefix string, overlap time.Duration) (keys.Issued, error)
	Revoke(ctx context.Context, prefix string) error
	List(ctx context.Context, account string) ([]keys.Summary, error)
	Get(ctx context.Context, prefix string) (keys.Summary, error)
}

const (
	maxKeyName = 200
	// maxOverlapSeconds is 24 hours (DESIGN §6).
	maxOverlapSeconds = 24 * 60 * 60
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

func (s *Server) created(issued keys.Issued) createdKey {
	return createdKey{Key: issued.Key, shownKey: shownKey{
		Prefix: issued.Prefix, Name: issued.Name, Environment: s.developer.Environment, Tier: issued.Tier,
		CreatedAt: issued.CreatedAt, ExpiresAt: issued.ExpiresAt,
	}}
}

// createKey issues a key to the developer's account.
func (s *Server) createKey(ctx context.Context, r *request, session sessions.Session) error {
	want := keys.NewKey{Account: session.Account}
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

// listKeys lists the account's keys, redacted.
func (s *Server) listKeys(ctx context.Context, r *request, session sessions.Session) error {
	found, err := s.developer.Keys.List(ctx, session.Account)
	if err != nil {
		return err
	}
	list := make([]shownKey, len(found))
	for i, key := range found {
		list[i] = shownKey{
			Prefix: key.Prefix, Name: key.Name, Environment: s.developer.Environment, Tier: key.Tier,
			CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt, LastUsedAt: key.LastUsedAt, RevokedAt: key.RevokedAt,
		}
	}
	return writeValue(r.http, fasthttp.StatusOK, map[string]any{"keys": list})
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

// rotatedKey is a successor. OldKeyRevoked is false, and only then sent, when not every pod is known to have heard of the
// old key's end: the successor is good, and revoking the old key makes certain.
type rotatedKey struct {
	createdKey
	OldKeyRevoked *bool `json:"old_key_revoked,omitempty"`
}

// rotateKey issues a successor; the old key lives on for overlap_seconds, without a body not at all.
func (s *Server) rotateKey(ctx context.Context, r *request, session sessions.Session) error {
	var overlap int
	if len(r.http.Request.Body()) > 0 {
		if err := decodeBody(r.http, bodyField{"overlap_seconds", true, integer(&overlap, 0, maxOverlapSeconds)}); err != nil {
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
	prefix, _ := r.http.UserValue("key_prefix").(string)
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

// ofDeveloper turns the mistakes of keys and webhooks into answers; what it does not know stays as it is.
func ofDeveloper(err error) error {
	var unknownKey *keys.UnknownKeyError
	var retired *keys.RetiredKeyError
	var invalidKey *keys.InvalidError
	var unknownEndpoint *webhooks.NotFoundError
	var invalidEndpoint *webhooks.ValidationError
	var managed *webhooks.ManagedError
	var untold *keys.NotAnnouncedError
	switch {
	case errors.As(err, &unknownKey), errors.As(err, &unknownEndpoint):
		return &apiError{status: fasthttp.StatusNotFound, code: codeNotFound, detail: "No such resource."}
	case errors.As(err, &untold): // it is done, but not yet certain everywhere: asking again makes it so
		return unavailable()
	case errors.As(err, &retired):
		return &apiError{status: fasthttp.StatusConflict, code: codeConflict, detail: "The key is revoked, has expired or was rotated already."}
	case errors.As(err, &managed):
		return &apiError{
			status: fasthttp.StatusConflict, code: codeConflict, detail: "The webhook is declared by a resource of the cluster; change it there.",
			fields: []fieldError{{"managed_by", managed.Owner}},
		}
	case errors.As(err, &invalidKey):
		return validationFailed(fieldError{invalidKey.Field, invalidKey.Detail})
	case errors.As(err, &invalidEndpoint):
		return validationFailed(fieldError{invalidEndpoint.Field, invalidEndpoint.Detail})
	default:
		return err
	}
}

// timestamp reads an RFC 3339 time.
func timestamp(target **time.Time) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '"' {
			return skipWrong(d, "must be an RFC 3339 time")
		}
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		at, isTime := parseTime(token.String())
		if !isTime {
			return "must be an RFC 3339 time", nil
		}
		*target = &at
		return "", nil
	}
}

func parseTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// textList reads an array of at most strings.
func textList(target *[]string, most int) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '[' {
			return skipWrong(d, "must be an array of strings")
		}
		if _, err := d.ReadToken(); err != nil {
			return "", err
		}
		problem := ""
		for d.PeekKind() != ']' {
			if d.PeekKind() != '"' {
				problem = "must be an array of strings"
				if err := skipValue(d); err != nil {
					return "", err
				}
				continue
			}
			token, err := d.ReadToken()
			if err != nil {
				return "", err
			}
			if len(*target) == most {
				problem = "has too many elements"
				continue
			}
			*target = append(*target, token.String())
		}
		_, err := d.ReadToken()
		return problem, err
	}
}
