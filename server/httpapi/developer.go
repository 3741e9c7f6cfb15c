package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
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
			managedBy: managed.Owner,
		}
	case errors.As(err, &invalidKey):
		return validationFailed(fieldError{invalidKey.Field, invalidKey.Detail})
	case errors.As(err, &invalidEndpoint):
		return validationFailed(fieldError{invalidEndpoint.Field, invalidEndpoint.Detail})
	default:
		return err
	}
}
