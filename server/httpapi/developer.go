package httpapi

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
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
	Now             func() time.Time
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
		{get, sessionPath, "getSession", accessSession, needTime, s.getSession},
		{del, sessionPath, "deleteSession", accessSession, needTime, s.deleteSession},
		{post, "/v1/developer/keys", "createKey", accessSession, needBody, s.createKey},
		{get, "/v1/developer/keys", "listKeys", accessSession, needTime, s.listKeys},
		{del, "/v1/developer/keys/{key_prefix}", "revokeKey", accessSession, needTime, s.revokeKey},
		{post, "/v1/developer/keys/{key_prefix}/rotate", "rotateKey", accessSession, needBody, s.rotateKey},
		{post, "/v1/developer/webhooks", "createWebhook", accessSession, needBody, s.createWebhook},
		{get, "/v1/developer/webhooks", "listWebhooks", accessSession, needTime, s.listWebhooks},
		{get, "/v1/developer/webhooks/{id}", "getWebhook", accessSession, needTime, onWebhook(s.getWebhook)},
		{patch, "/v1/developer/webhooks/{id}", "updateWebhook", accessSession, needBody, onWebhook(s.updateWebhook)},
		{del, "/v1/developer/webhooks/{id}", "deleteWebhook", accessSession, needTime, onWebhook(s.deleteWebhook)},
		{post, "/v1/developer/webhooks/{id}/rotate-secret", "rotateWebhookSecret", accessSession, needTime, onWebhook(s.rotateWebhookSecret)},
		{post, "/v1/developer/webhooks/{id}/test", "testWebhook", accessSession, needTime, onWebhook(s.testWebhook)},
		{get, "/v1/developer/webhooks/{id}/deliveries", "listWebhookDeliveries", accessSession, needTime, onWebhook(s.listWebhookDeliveries)},
		{post, "/v1/developer/webhooks/{id}/recover", "recoverWebhook", accessSession, needBody, onWebhook(s.recoverWebhook)},
		{get, "/v1/developer/webhooks/{id}/deliveries/{delivery_id}", "getWebhookDelivery", accessSession, needTime, onWebhook(s.getWebhookDelivery)},
		{post, "/v1/developer/webhooks/{id}/deliveries/{delivery_id}/redeliver", "redeliverWebhookDelivery", accessSession, needTime, onWebhook(s.redeliverWebhookDelivery)},
		{get, "/v1/developer/usage", "getUsage", accessSession, needTime, s.getUsage},
	}
}

// openConsole sends a person who came to the bare address to where signing in begins.
func openConsole(_ context.Context, r *request) error {
	redirect(r.http, "/v1/developer/sign-in")
	return nil
}

// utc shows times in one zone, whatever the database's session has.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	shown := at.UTC()
	return &shown
}
