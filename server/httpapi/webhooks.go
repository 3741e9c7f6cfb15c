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
	LastStatus     int             `json:"last_status,omitempty"`
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
	want.Events = eventKinds(events)
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
	id, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	endpoint, err := s.developer.Webhooks.Get(ctx, session.AccountID, id)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusOK, newShownWebhook(endpoint))
}

// updateWebhook changes of an endpoint what is given; the rest stays.
func (s *Server) updateWebhook(ctx context.Context, r *request, session sessions.Session) error {
	change, err := decodeChange(r)
	if err != nil {
		return err
	}
	id, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	updated, err := s.developer.Webhooks.Update(ctx, session.AccountID, id, change)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusOK, newShownWebhook(updated))
}

func decodeChange(r *request) (change webhooks.Change, err error) {
	var events []string
	var status string
	err = decodeBody(r.http,
		bodyField{"url", false, optionalText(&change.URL, 1, maxWebhookURL)},
		bodyField{"events", false, textList(&events, maxWebhookEvents)},
		bodyField{"description", false, optionalText(&change.Description, 0, maxWebhookDescription)},
		bodyField{"status", false, oneOf(&status, webhooks.StatusEnabled, webhooks.StatusDisabled)},
	)
	if status != "" {
		enabled := status == webhooks.StatusEnabled
		change.Enabled = &enabled
	}
	change.Events = eventKinds(events)
	return change, err
}

// eventKinds is nil where there are no names, and empty where they are empty.
func eventKinds(names []string) []webhooks.Kind {
	if names == nil {
		return nil
	}
	kinds := make([]webhooks.Kind, len(names))
	for i, name := range names {
		kinds[i] = webhooks.Kind(name)
	}
	return kinds
}

// deleteWebhook removes an endpoint and cancels what is pending for it.
func (s *Server) deleteWebhook(ctx context.Context, r *request, session sessions.Session) error {
	id, err := pathID(ctx, r, "id")
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
	id, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	secret, err := s.developer.Webhooks.RotateSecret(ctx, session.AccountID, id)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusOK, map[string]any{"id": id, "secret": secret})
}
