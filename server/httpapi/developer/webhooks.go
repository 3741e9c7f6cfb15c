package developer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/webhooks"
)

// Webhooks is what a developer does with webhook endpoints; *webhooks.Endpoints is one.
type Webhooks interface {
	Register(ctx context.Context, r webhooks.Registration) (webhooks.Endpoint, string, error)
	List(ctx context.Context, account uuid.UUID) ([]webhooks.Endpoint, error)
	Get(ctx context.Context, account, id uuid.UUID) (webhooks.Endpoint, error)
	Update(ctx context.Context, account, id uuid.UUID, change webhooks.Change) (webhooks.Endpoint, error)
	Delete(ctx context.Context, account, id uuid.UUID) error
	RotateSecret(ctx context.Context, account, id uuid.UUID) (string, error)
	Deliveries
}

const (
	maxWebhookURL         = 2048
	maxWebhookDescription = 500
	// maxWebhookEvents is how many there are; none may be given twice.
	maxWebhookEvents = 3
)

// shownWebhook is an endpoint without its secret.
type shownWebhook struct {
	ID             uuid.UUID       `json:"id"`
	URL            string          `json:"url"`
	Events         []webhooks.Kind `json:"events"`
	Description    string          `json:"description"`
	Status         string          `json:"status"`
	DisabledReason string          `json:"disabled_reason,omitempty"`
	FailingSince   *time.Time      `json:"failing_since,omitempty"`
	DisablesAt     *time.Time      `json:"disables_at,omitempty"`
	LastStatus     int             `json:"last_status,omitzero"`
	LastSuccessAt  *time.Time      `json:"last_success_at,omitempty"`
	ManagedBy      string          `json:"managed_by,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
}

func newShownWebhook(e webhooks.Endpoint) shownWebhook {
	return shownWebhook{
		ID: e.ID, URL: e.URL, Events: e.Events, Description: e.Description, Status: e.Status,
		DisabledReason: e.DisabledReason, FailingSince: utc(e.FailingSince), DisablesAt: utc(e.DisablesAt),
		LastStatus: e.LastStatus, LastSuccessAt: utc(e.LastSuccessAt), ManagedBy: e.ManagedBy, CreatedAt: e.CreatedAt.UTC(),
	}
}

// webhookHandlers have the routes of webhook endpoints and their deliveries.
type webhookHandlers struct {
	store Webhooks
	now   func() time.Time
}

func (h *webhookHandlers) routes() []endpoint.Route {
	const one = "/v1/developer/webhooks/{id}"
	const get, post = fasthttp.MethodGet, fasthttp.MethodPost
	return []endpoint.Route{
		session(post, "/v1/developer/webhooks", "createWebhook", endpoint.Body, h.create),
		session(get, "/v1/developer/webhooks", "listWebhooks", endpoint.Time, h.list),
		session(get, one, "getWebhook", endpoint.Time, onWebhook(h.get)),
		session(fasthttp.MethodPatch, one, "updateWebhook", endpoint.Body, onWebhook(h.update)),
		session(fasthttp.MethodDelete, one, "deleteWebhook", endpoint.Time, onWebhook(h.remove)),
		session(post, one+"/rotate-secret", "rotateWebhookSecret", endpoint.Time, onWebhook(h.rotateSecret)),
		session(post, one+"/test", "testWebhook", endpoint.Time, onWebhook(h.test)),
		session(get, one+"/deliveries", "listWebhookDeliveries", endpoint.Time, onWebhook(h.listDeliveries)),
		session(post, one+"/recover", "recoverWebhook", endpoint.Body, onWebhook(h.recover)),
		session(get, one+"/deliveries/{delivery_id}", "getWebhookDelivery", endpoint.Time, onWebhook(h.getDelivery)),
		session(post, one+"/deliveries/{delivery_id}/redeliver", "redeliverWebhookDelivery", endpoint.Time, onWebhook(h.redeliver)),
	}
}

// onWebhook hands over the webhook's id from the path.
func onWebhook(next func(ctx context.Context, r *endpoint.Request, id uuid.UUID) error) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		id, err := r.UUID("id")
		if err != nil {
			return err
		}
		return next(ctx, r, id)
	}
}

// create registers an endpoint; the answer holds its signing secret, this once.
func (h *webhookHandlers) create(ctx context.Context, r *endpoint.Request) error {
	want := webhooks.Registration{AccountID: r.Session.AccountID}
	body := r.JSON()
	body.Text("url", &want.URL, 1, maxWebhookURL)
	want.Events = eventKinds(body)
	body.Text("description", &want.Description, 0, maxWebhookDescription)
	if err := body.Check("url", "events"); err != nil {
		return err
	}
	registered, secret, err := h.store.Register(ctx, want)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusCreated, struct {
		shownWebhook
		Secret string `json:"secret"`
	}{newShownWebhook(registered), secret})
}

// list lists the account's endpoints, newest first.
func (h *webhookHandlers) list(ctx context.Context, r *endpoint.Request) error {
	found, err := h.store.List(ctx, r.Session.AccountID)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, map[string]any{"webhooks": mapped(found, newShownWebhook)})
}

// get shows one endpoint.
func (h *webhookHandlers) get(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	endpoint, err := h.store.Get(ctx, r.Session.AccountID, id)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, newShownWebhook(endpoint))
}

// update changes of an endpoint what is given; the rest stays.
func (h *webhookHandlers) update(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	change, err := decodeChange(r)
	if err != nil {
		return err
	}
	updated, err := h.store.Update(ctx, r.Session.AccountID, id, change)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, newShownWebhook(updated))
}

func decodeChange(r *endpoint.Request) (change webhooks.Change, err error) {
	var url, description, status string
	body := r.JSON()
	if body.Text("url", &url, 1, maxWebhookURL) {
		change.URL = &url
	}
	change.Events = eventKinds(body)
	if body.Text("description", &description, 0, maxWebhookDescription) {
		change.Description = &description
	}
	body.OneOf("status", &status, webhooks.StatusEnabled, webhooks.StatusDisabled)
	if status != "" {
		enabled := status == webhooks.StatusEnabled
		change.Enabled = &enabled
	}
	return change, body.Check()
}

// eventKinds is nil where there are no events, and empty where they are empty.
func eventKinds(body *codec.Body) []webhooks.Kind {
	names := body.Strings("events", maxWebhookEvents)
	if names == nil {
		return nil
	}
	return mapped(names, func(name string) webhooks.Kind { return webhooks.Kind(name) })
}

// remove removes an endpoint and cancels what is pending for it.
func (h *webhookHandlers) remove(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	return r.NoContent(h.store.Delete(ctx, r.Session.AccountID, id))
}

// rotateSecret makes a new signing secret. For 24 hours events are signed with the old one too.
func (h *webhookHandlers) rotateSecret(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	secret, err := h.store.RotateSecret(ctx, r.Session.AccountID, id)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, struct {
		ID     uuid.UUID `json:"id"`
		Secret string    `json:"secret"`
	}{id, secret})
}
