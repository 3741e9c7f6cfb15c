package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

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

// onWebhook hands over the webhook's id from the path.
func onWebhook(next func(ctx context.Context, r *request, id uuid.UUID) error) handler {
	return func(ctx context.Context, r *request) error {
		id, err := pathUUID(r, "id")
		if err != nil {
			return err
		}
		return next(ctx, r, id)
	}
}

// createWebhook registers an endpoint; the answer holds its signing secret, this once.
func (s *Server) createWebhook(ctx context.Context, r *request) error {
	want := webhooks.Registration{AccountID: r.session.AccountID}
	body := readJSON(&r.http.Request)
	body.text("url", &want.URL, 1, maxWebhookURL)
	want.Events = eventKinds(body)
	body.text("description", &want.Description, 0, maxWebhookDescription)
	if err := body.check("url", "events"); err != nil {
		return err
	}
	registered, secret, err := s.developer.Webhooks.Register(ctx, want)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusCreated, struct {
		shownWebhook
		Secret string `json:"secret"`
	}{newShownWebhook(registered), secret})
}

// listWebhooks lists the account's endpoints, newest first.
func (s *Server) listWebhooks(ctx context.Context, r *request) error {
	found, err := s.developer.Webhooks.List(ctx, r.session.AccountID)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, map[string]any{"webhooks": mapped(found, newShownWebhook)})
}

// getWebhook shows one endpoint.
func (s *Server) getWebhook(ctx context.Context, r *request, id uuid.UUID) error {
	endpoint, err := s.developer.Webhooks.Get(ctx, r.session.AccountID, id)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, newShownWebhook(endpoint))
}

// updateWebhook changes of an endpoint what is given; the rest stays.
func (s *Server) updateWebhook(ctx context.Context, r *request, id uuid.UUID) error {
	change, err := decodeChange(r)
	if err != nil {
		return err
	}
	updated, err := s.developer.Webhooks.Update(ctx, r.session.AccountID, id, change)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, newShownWebhook(updated))
}

func decodeChange(r *request) (change webhooks.Change, err error) {
	var url, description, status string
	body := readJSON(&r.http.Request)
	if body.text("url", &url, 1, maxWebhookURL) {
		change.URL = &url
	}
	change.Events = eventKinds(body)
	if body.text("description", &description, 0, maxWebhookDescription) {
		change.Description = &description
	}
	body.oneOf("status", &status, webhooks.StatusEnabled, webhooks.StatusDisabled)
	if status != "" {
		enabled := status == webhooks.StatusEnabled
		change.Enabled = &enabled
	}
	return change, body.check()
}

// eventKinds is nil where there are no events, and empty where they are empty.
func eventKinds(body *jsonBody) []webhooks.Kind {
	names := body.list("events", maxWebhookEvents)
	if names == nil {
		return nil
	}
	return mapped(names, func(name string) webhooks.Kind { return webhooks.Kind(name) })
}

// deleteWebhook removes an endpoint and cancels what is pending for it.
func (s *Server) deleteWebhook(ctx context.Context, r *request, id uuid.UUID) error {
	return writeNothing(r.http, s.developer.Webhooks.Delete(ctx, r.session.AccountID, id))
}

// rotateWebhookSecret makes a new signing secret; the old one signs beside it for 24 hours.
func (s *Server) rotateWebhookSecret(ctx context.Context, r *request, id uuid.UUID) error {
	secret, err := s.developer.Webhooks.RotateSecret(ctx, r.session.AccountID, id)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		ID     uuid.UUID `json:"id"`
		Secret string    `json:"secret"`
	}{id, secret})
}
