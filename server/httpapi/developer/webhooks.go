package developer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/webhooks"
)

// Webhooks stores the webhook endpoints of accounts; *webhooks.Endpoints implements it.
type Webhooks interface {
	WebhookOverview
	Register(ctx context.Context, r webhooks.Registration) (webhooks.Endpoint, string, error)
	List(ctx context.Context, account uuid.UUID) ([]webhooks.EndpointDetail, error)
	Get(ctx context.Context, account, id uuid.UUID) (webhooks.EndpointDetail, error)
	Update(ctx context.Context, account, id uuid.UUID, change webhooks.Change) (webhooks.Endpoint, error)
	Delete(ctx context.Context, account, id uuid.UUID) error
	RotateSecret(ctx context.Context, account, id uuid.UUID) (string, error)
}

// Deliveries reads and repeats an endpoint's deliveries, also if the cluster declares the endpoint; *webhooks.Deliveries implements it.
type Deliveries interface {
	Test(ctx context.Context, account, endpoint uuid.UUID, now time.Time) (uuid.UUID, error)
	List(ctx context.Context, account, endpoint uuid.UUID, filter webhooks.DeliveryFilter, limit int) (webhooks.DeliveryPage, error)
	Get(ctx context.Context, account, endpoint, delivery uuid.UUID) (webhooks.DeliveryDetail, error)
	Redeliver(ctx context.Context, account, endpoint, delivery uuid.UUID) (uuid.UUID, error)
	Recover(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (webhooks.Recovery, error)
	// Recoverable returns what Recover would do.
	Recoverable(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (webhooks.Recovery, error)
}

const (
	maxWebhookURL         = 2048
	maxWebhookDescription = 500
	// maxWebhookEvents is how many there are; none may be given twice.
	maxWebhookEvents = 3
	// maxWebhookBody bounds the body of a webhook, in bytes: JSON writes a character in up to 12.
	maxWebhookBody      = 32 << 10
	defaultDeliveryPage = 50
)

// webhookHandlers have the routes of webhook endpoints and their deliveries.
type webhookHandlers struct {
	store      Webhooks
	deliveries Deliveries
	now        func() time.Time
}

func (h *webhookHandlers) routes() []endpoint.Route {
	const one = "/v1/developer/webhooks/{id}"
	const get, post = fasthttp.MethodGet, fasthttp.MethodPost
	return append(
		roleFor(accounts.Viewer,
			session(get, "/v1/developer/webhooks", "listWebhooks", endpoint.Time, h.list),
			session(get, one, "getWebhook", endpoint.Time, onWebhook(h.get)),
			session(get, one+"/deliveries", "listWebhookDeliveries", endpoint.Time, onWebhook(h.listDeliveries)),
			session(get, one+"/deliveries/{delivery_id}", "getWebhookDelivery", endpoint.Time, onWebhook(h.getDelivery)),
		),
		roleFor(accounts.Developer,
			withURL(session(post, "/v1/developer/webhooks", "createWebhook", endpoint.Body, h.create)),
			withURL(session(fasthttp.MethodPatch, one, "updateWebhook", endpoint.Body, onWebhook(h.update))),
			session(fasthttp.MethodDelete, one, "deleteWebhook", endpoint.Time, onWebhook(h.remove)),
			session(post, one+"/rotate-secret", "rotateWebhookSecret", endpoint.Time, onWebhook(h.rotateSecret)),
			session(post, one+"/test", "testWebhook", endpoint.Time, onWebhook(h.test)),
			session(post, one+"/recover", "recoverWebhook", endpoint.Body, onWebhook(h.recover)),
			session(post, one+"/deliveries/{delivery_id}/redeliver", "redeliverWebhookDelivery", endpoint.Time, onWebhook(h.redeliver)),
		)...)
}

// withURL returns a route whose body has the URL and the description of a webhook.
func withURL(route endpoint.Route) endpoint.Route {
	route.MaxBody = maxWebhookBody
	return route
}

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
	return r.Send(fasthttp.StatusCreated, struct {
		webhooks.Endpoint
		Secret string `json:"secret"`
	}{registered, secret}, err)
}

// list lists the account's endpoints, newest first.
func (h *webhookHandlers) list(ctx context.Context, r *endpoint.Request) error {
	found, err := h.store.List(ctx, r.Session.AccountID)
	return r.OK(map[string][]webhooks.EndpointDetail{"webhooks": found}, err)
}

func (h *webhookHandlers) get(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	return r.OK(h.store.Get(ctx, r.Session.AccountID, id))
}

// update changes of an endpoint what is given; the rest stays.
func (h *webhookHandlers) update(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	var change webhooks.Change
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
	if err := body.Check(); err != nil {
		return err
	}
	return r.OK(h.store.Update(ctx, r.Session.AccountID, id, change))
}

// eventKinds is nil where there are no events, and empty where they are empty.
func eventKinds(body *codec.Fields) []webhooks.Kind {
	return mapped(body.Strings("events", maxWebhookEvents), func(name string) webhooks.Kind { return webhooks.Kind(name) })
}

// remove removes an endpoint and cancels what is pending for it.
func (h *webhookHandlers) remove(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	return r.NoContent(h.store.Delete(ctx, r.Session.AccountID, id))
}

// rotateSecret makes a new signing secret. For 24 hours events are signed with the old one too.
func (h *webhookHandlers) rotateSecret(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	secret, err := h.store.RotateSecret(ctx, r.Session.AccountID, id)
	return r.OK(struct {
		ID     uuid.UUID `json:"id"`
		Secret string    `json:"secret"`
	}{id, secret}, err)
}

func (h *webhookHandlers) test(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := h.deliveries.Test(ctx, r.Session.AccountID, id, h.now())
	return r.Send(fasthttp.StatusAccepted, map[string]uuid.UUID{"delivery_id": delivery}, err)
}

// listDeliveries lists the deliveries to an endpoint that the query selects, newest first.
func (h *webhookHandlers) listDeliveries(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	var state, kind string
	limit, query := defaultDeliveryPage, r.Query()
	query.Integer("limit", &limit, 1, webhooks.MaxDeliveryPage)
	query.OneOf("state", &state, texts(webhooks.States())...)
	query.OneOf("event", &kind, texts(append(webhooks.Kinds(), webhooks.KindTest))...)
	filter := webhooks.DeliveryFilter{Before: readID(query, "before")}
	if since := query.Time("since"); since != nil {
		filter.Since = *since
	}
	if err := query.Check(); err != nil {
		return err
	}
	filter.State, filter.Kind = webhooks.State(state), webhooks.Kind(kind)
	return r.OK(h.deliveries.List(ctx, r.Session.AccountID, id, filter, limit))
}

// texts returns names as strings.
func texts[T ~string](names []T) []string {
	return mapped(names, func(name T) string { return string(name) })
}

func (h *webhookHandlers) getDelivery(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := r.UUID("delivery_id")
	if err != nil {
		return err
	}
	return r.OK(h.deliveries.Get(ctx, r.Session.AccountID, id, delivery))
}

func (h *webhookHandlers) redeliver(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := r.UUID("delivery_id")
	if err != nil {
		return err
	}
	started, err := h.deliveries.Redeliver(ctx, r.Session.AccountID, id, delivery)
	return r.Send(fasthttp.StatusAccepted, map[string]uuid.UUID{"delivery_id": started}, err)
}

// recover sends again what did not arrive since a moment. A dry run only counts it.
func (h *webhookHandlers) recover(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	var dryRun bool
	body := r.JSON()
	since := body.Time("since")
	body.Bool("dry_run", &dryRun)
	if err := body.Check("since"); err != nil {
		return err
	}
	if dryRun {
		return r.OK(h.deliveries.Recoverable(ctx, r.Session.AccountID, id, *since))
	}
	recovery, err := h.deliveries.Recover(ctx, r.Session.AccountID, id, *since)
	return r.Send(fasthttp.StatusAccepted, recovery, err)
}
