package httpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
	"examprep.dev/server/webhooks"
)

// Developer is what the routes under /v1/developer stand on: signed-in people manage keys and webhooks there,
// and see how often their keys were used.
type Developer struct {
	SignIn   SignIn
	Sessions Sessions
	Keys     Keys
	Usage    Usage
	Webhooks Webhooks
	// Environment is production or sandbox, told with each key.
	Environment string
	// SessionLifetime is the cookie's: the session's absolute time-out.
	SessionLifetime time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

func (d *Developer) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// developerRoutes is empty where no OpenID Connect provider is configured: the paths do not exist then.
func (s *Server) developerRoutes() []route {
	if s.developer == nil {
		return nil
	}
	const get, post, patch, del = fasthttp.MethodGet, fasthttp.MethodPost, fasthttp.MethodPatch, fasthttp.MethodDelete
	return []route{
		{get, "/", "openConsole", accessOpen, needNothing, openConsole},
		{get, "/v1/developer/sign-in", "beginSignIn", accessOpen, needTime, s.beginSignIn},
		{get, "/v1/developer/callback", "completeSignIn", accessOpen, needTime, s.completeSignIn},
		{get, sessionPath, "getSession", accessSession, needTime, signedIn(s.getSession)},
		{del, sessionPath, "deleteSession", accessSession, needTime, signedIn(s.deleteSession)},
		{post, "/v1/developer/keys", "createKey", accessSession, needBody, signedIn(s.createKey)},
		{get, "/v1/developer/keys", "listKeys", accessSession, needTime, signedIn(s.listKeys)},
		{del, "/v1/developer/keys/{key_prefix}", "revokeKey", accessSession, needTime, signedIn(s.revokeKey)},
		{post, "/v1/developer/keys/{key_prefix}/rotate", "rotateKey", accessSession, needBody, signedIn(s.rotateKey)},
		{post, "/v1/developer/webhooks", "createWebhook", accessSession, needBody, signedIn(s.createWebhook)},
		{get, "/v1/developer/webhooks", "listWebhooks", accessSession, needTime, signedIn(s.listWebhooks)},
		{get, "/v1/developer/webhooks/{id}", "getWebhook", accessSession, needTime, signedIn(s.getWebhook)},
		{patch, "/v1/developer/webhooks/{id}", "updateWebhook", accessSession, needBody, signedIn(s.updateWebhook)},
		{del, "/v1/developer/webhooks/{id}", "deleteWebhook", accessSession, needTime, signedIn(s.deleteWebhook)},
		{post, "/v1/developer/webhooks/{id}/rotate-secret", "rotateWebhookSecret", accessSession, needTime, signedIn(s.rotateWebhookSecret)},
		{post, "/v1/developer/webhooks/{id}/test", "testWebhook", accessSession, needTime, signedIn(s.testWebhook)},
		{get, "/v1/developer/webhooks/{id}/deliveries", "listWebhookDeliveries", accessSession, needTime, signedIn(s.listWebhookDeliveries)},
		{post, "/v1/developer/webhooks/{id}/recover", "recoverWebhook", accessSession, needBody, signedIn(s.recoverWebhook)},
		{get, "/v1/developer/webhooks/{id}/deliveries/{delivery_id}", "getWebhookDelivery", accessSession, needTime, signedIn(s.getWebhookDelivery)},
		{post, "/v1/developer/webhooks/{id}/deliveries/{delivery_id}/redeliver", "redeliverWebhookDelivery", accessSession, needTime, signedIn(s.redeliverWebhookDelivery)},
		{get, "/v1/developer/usage", "getUsage", accessSession, needTime, signedIn(s.getUsage)},
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
	var full *keys.LimitError
	var untold *keys.NotAnnouncedError
	switch {
	case errors.As(err, &unknownKey):
		return noSuchResource()
	case errors.As(err, &untold): // it is done, but not yet certain everywhere: asking again makes it so
		return unavailable()
	case errors.As(err, &retired):
		return conflict("The key is revoked, has expired or was rotated already.")
	case errors.As(err, &full) && full.Rotated:
		return conflict(fmt.Sprintf("%d rotated keys live on already; let an overlap end, or rotate without one.", full.Most))
	case errors.As(err, &full):
		return conflict(fmt.Sprintf("The account has %d live keys, and no more are allowed; revoke one first.", full.Most))
	case errors.As(err, &invalidKey):
		return validationFailed(fieldError{invalidKey.Field, invalidKey.Detail})
	default:
		return ofWebhooks(err)
	}
}

func ofWebhooks(err error) error {
	var unknown *webhooks.NotFoundError
	var invalid *webhooks.ValidationError
	var managed *webhooks.ManagedError
	var full *webhooks.LimitError
	var disabled *webhooks.DisabledError
	var busy *webhooks.BusyError
	switch {
	case errors.As(err, &unknown):
		return noSuchResource()
	case errors.As(err, &managed):
		refused := conflict("The webhook is declared by a resource of the cluster; change it there.")
		refused.managedBy = managed.Owner
		return refused
	case errors.As(err, &full) && full.ByHand:
		return conflict(fmt.Sprintf("%d tests and redeliveries of the webhook are pending, and no more are allowed; wait until some have ended.", full.Most))
	case errors.As(err, &full):
		return conflict(fmt.Sprintf("The account has %d webhooks, and no more are allowed; delete one first.", full.Most))
	case errors.As(err, &busy):
		return conflict("Deliveries of the webhook are being sent again by another request; ask once more when it has ended.")
	case errors.As(err, &disabled):
		return conflict("The webhook is disabled, and nothing is sent to it: " + disabled.Reason + ".")
	case errors.As(err, &invalid):
		return validationFailed(fieldError{invalid.Field, invalid.Detail})
	default:
		return err
	}
}

func conflict(detail string) *apiError {
	return &apiError{status: fasthttp.StatusConflict, code: codeConflict, detail: detail}
}

// utc shows times in one zone, whatever the database's session has.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	shown := at.UTC()
	return &shown
}
