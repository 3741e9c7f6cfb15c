package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/sessions"
	"examprep.dev/server/webhooks"
)

// Webhooks is what a developer does with webhook endpoints; *webhooks.Endpoints is one.
type Webhooks interface {
	Register(ctx context.Context, r webhooks.Registration) (webhooks.Endpoint, string, error)
	List(ctx context.Context, account uuid.UUID) ([]webhooks.Endpoint, error)
	Get(ctx context.Context, account, id uuid.UUID) (webhooks.Endpoint, error)
	Delete(ctx context.Context, account, id uuid.UUID) error
	RotateSecret(ctx context.Context, account, id uuid.UUID) (string, error)
}

const (
	maxWebhookURL         = 2048
	maxWebhookDescription = 500
	maxWebhookEvents      = 16
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
	ManagedBy      string          `json:"managed_by,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
}

func newShownWebhook(e webhooks.Endpoint) shownWebhook {
	return shownWebhook{
		ID: e.ID, URL: e.URL, Events: e.Events, Description: e.Description, Status: e.Status,
		DisabledReason: e.DisabledReason, FailingSince: e.FailingSince, ManagedBy: e.ManagedBy, CreatedAt: e.CreatedAt,
	}
}

// createWebhook registers an endpoint; the answer holds its signing secret, this once.
func (s *Server) createWebhook(ctx context.Context, r *request, session sessions.Session) error {
	want := webhooks.Registration{AccountID: session.AccountID}
	var events []string
	if err := decodeBody(r.http,
		bodyField{"url", true, text(&want.URL, 1, maxWebhookURL)},
		bodyField{"events", true, textList(&events, maxWebhookEvents)},
		bodyField{"description", false, text(&want.Description, 0, maxWebhookDescription)},
	); err != nil {
		return err
	}
	for _, event := range events {
		want.Events = append(want.Events, webhooks.Kind(event))
	}
	registered, secret, err := s.developer.Webhooks.Register(ctx, want)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusCreated, struct {
		shownWebhook
		Secret string `json:"secret"`
	}{newShownWebhook(registered), secret})
}

// listWebhooks lists the account's endpoints, newest first.
func (s *Server) listWebhooks(ctx context.Context, r *request, session sessions.Session) error {
	found, err := s.developer.Webhooks.List(ctx, session.AccountID)
	if err != nil {
		return err
	}
	list := make([]shownWebhook, len(found))
	for i, endpoint := range found {
		list[i] = newShownWebhook(endpoint)
	}
	return writeValue(r.http, fasthttp.StatusOK, map[string]any{"webhooks": list})
}

// getWebhook shows one endpoint.
func (s *Server) getWebhook(ctx context.Context, r *request, session sessions.Session) error {
	id, err := webhookID(ctx, r)
	if err != nil {
		return err
	}
	endpoint, err := s.developer.Webhooks.Get(ctx, session.AccountID, id)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusOK, newShownWebhook(endpoint))
}

// deleteWebhook removes an endpoint and cancels what is pending for it.
func (s *Server) deleteWebhook(ctx context.Context, r *request, session sessions.Session) error {
	id, err := webhookID(ctx, r)
	if err != nil {
		return err
	}
	if err := s.developer.Webhooks.Delete(ctx, session.AccountID, id); err != nil {
		return ofDeveloper(err)
	}
	r.http.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// rotateWebhookSecret makes a new signing secret; the old one signs beside it for 24 hours.
func (s *Server) rotateWebhookSecret(ctx context.Context, r *request, session sessions.Session) error {
	id, err := webhookID(ctx, r)
	if err != nil {
		return err
	}
	secret, err := s.developer.Webhooks.RotateSecret(ctx, session.AccountID, id)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusOK, map[string]any{"id": id, "secret": secret})
}

// webhookID reads the path's id; what is no UUID names nothing.
func webhookID(ctx context.Context, r *request) (uuid.UUID, error) {
	segment, _ := r.http.UserValue("id").(string)
	id, err := uuid.Parse(segment)
	if err != nil {
		return uuid.Nil, notFound(ctx, r)
	}
	return id, nil
}
