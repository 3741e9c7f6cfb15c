package developer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/keys"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// overviewDays is how many days of requests an overview has.
const overviewDays = 30

// KeyOverview summarizes the keys of an account; *keys.Store implements it.
type KeyOverview interface {
	Overview(ctx context.Context, account uuid.UUID) (keys.Overview, error)
}

// UsageByDay sums the usage of an account's keys; *usage.Store implements it.
type UsageByDay interface {
	// Days returns n days that end with the day of last, the oldest first, or a *usage.TooManyRowsError.
	Days(ctx context.Context, account uuid.UUID, last time.Time, n int) ([]usage.Day, error)
}

// WebhookOverview summarizes the webhook endpoints of an account; *webhooks.Endpoints implements it.
type WebhookOverview interface {
	Overview(ctx context.Context, account uuid.UUID) (webhooks.Overview, error)
}

type overviewHandlers struct {
	keys        KeyOverview
	usage       UsageByDay
	webhooks    WebhookOverview
	environment string
	now         func() time.Time
}

func (h *overviewHandlers) routes() []endpoint.Route {
	return roleFor(accounts.Viewer, session(fasthttp.MethodGet, "/v1/developer/overview", "getOverview", endpoint.Time, h.get))
}

type shownOverview struct {
	Environment string          `json:"environment"`
	Account     string          `json:"account"`
	Tier        *shownTier      `json:"tier,omitempty"`
	Requests    []requestsOfDay `json:"requests,omitempty"`
	Keys        struct {
		Active   int           `json:"active"`
		Expiring []expiringKey `json:"expiring"`
	} `json:"keys"`
	Webhooks struct {
		Healthy  int               `json:"healthy"`
		Failing  []failingWebhook  `json:"failing"`
		Disabled []disabledWebhook `json:"disabled"`
	} `json:"webhooks"`
}

type shownTier struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Seconds  int    `json:"period_sec"`
	Burst    int    `json:"burst"`
}

type requestsOfDay struct {
	Date    string `json:"date"`
	Allowed int64  `json:"allowed"`
	Limited int64  `json:"limited"`
}

type expiringKey struct {
	Prefix     string     `json:"key_prefix"`
	Name       string     `json:"name"`
	ExpiresAt  time.Time  `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

type failingWebhook struct {
	ID           uuid.UUID `json:"id"`
	URL          string    `json:"url"`
	FailingSince time.Time `json:"failing_since"`
	LastStatus   int       `json:"last_status,omitzero"`
	LastFailure  string    `json:"last_failure,omitempty"`
	Pending      int       `json:"pending"`
}

type disabledWebhook struct {
	ID     uuid.UUID `json:"id"`
	URL    string    `json:"url"`
	Reason string    `json:"reason"`
}

func (h *overviewHandlers) get(ctx context.Context, r *endpoint.Request) error {
	account := r.Session.AccountID
	ofKeys, err := h.keys.Overview(ctx, account)
	if err != nil {
		return err
	}
	days, err := h.usage.Days(ctx, account, h.now(), overviewDays)
	if _, tooMany := errors.AsType[*usage.TooManyRowsError](err); err != nil && !tooMany {
		return err
	}
	ofWebhooks, err := h.webhooks.Overview(ctx, account)
	shown := shownOverview{Environment: h.environment, Account: r.Session.Account, Tier: shownTierOf(ofKeys.Tier)}
	shown.Requests = mapped(days, func(d usage.Day) requestsOfDay {
		return requestsOfDay{d.Day.Format(time.DateOnly), d.Requests, d.RateLimited}
	})
	shown.Keys.Active = ofKeys.Active
	shown.Keys.Expiring = mapped(ofKeys.Expiring, func(k keys.ExpiringKey) expiringKey { return expiringKey(k) })
	shown.Webhooks.Healthy = ofWebhooks.Healthy
	shown.Webhooks.Failing = mapped(ofWebhooks.Failing, func(w webhooks.FailingEndpoint) failingWebhook { return failingWebhook(w) })
	shown.Webhooks.Disabled = mapped(ofWebhooks.Disabled, func(w webhooks.DisabledEndpoint) disabledWebhook { return disabledWebhook(w) })
	return r.OK(shown, err)
}

func shownTierOf(t *keys.Tier) *shownTier {
	if t == nil {
		return nil
	}
	return &shownTier{t.Name, t.Requests, int(t.Period / time.Second), t.Burst}
}
