package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/webhooks"
)

// Deliveries is what a developer does with the deliveries of an endpoint; *webhooks.Endpoints is one. Nothing of it
// changes the endpoint, so it is there for those declared in the cluster as well.
type Deliveries interface {
	Test(ctx context.Context, account, endpoint uuid.UUID, now time.Time) (uuid.UUID, error)
	Deliveries(ctx context.Context, account, endpoint uuid.UUID, before uuid.NullUUID, limit int) (webhooks.DeliveryPage, error)
	Delivery(ctx context.Context, account, endpoint, delivery uuid.UUID) (webhooks.DeliveryDetail, error)
	Redeliver(ctx context.Context, account, endpoint, delivery uuid.UUID) (uuid.UUID, error)
	Recover(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (webhooks.Recovery, error)
}

const defaultDeliveryPage = 50

type shownDelivery struct {
	ID            uuid.UUID     `json:"id"`
	EventID       uuid.UUID     `json:"event_id"`
	Event         webhooks.Kind `json:"event"`
	State         string        `json:"state"`
	Attempts      int           `json:"attempts"`
	NextAttemptAt *time.Time    `json:"next_attempt_at,omitempty"`
	LastStatus    int           `json:"last_status,omitzero"`
	LastFailure   string        `json:"last_failure,omitempty"`
	CreatedAt     time.Time     `json:"created_at"`
	FinishedAt    *time.Time    `json:"finished_at,omitempty"`
}

func newShownDelivery(d webhooks.Delivery) shownDelivery {
	return shownDelivery{
		ID: d.ID, EventID: d.EventID, Event: d.Kind, State: d.State, Attempts: d.Attempts, NextAttemptAt: utc(d.NextAttemptAt),
		LastStatus: d.LastStatus, LastFailure: d.LastFailure, CreatedAt: d.CreatedAt.UTC(), FinishedAt: utc(d.FinishedAt),
	}
}

// shownTry is one request to a receiver, and what came of it.
type shownTry struct {
	Attempt    int       `json:"attempt"`
	BeganAt    time.Time `json:"began_at"`
	DurationMS int64     `json:"duration_ms"`
	Status     int       `json:"status,omitzero"`
	Failure    string    `json:"failure,omitempty"`
	Answer     string    `json:"answer,omitempty"`
}

func newShownTry(try webhooks.Try) shownTry {
	return shownTry{
		Attempt: try.Attempt, BeganAt: try.BeganAt.UTC(), DurationMS: try.Duration.Milliseconds(),
		Status: try.Status, Failure: try.Failure, Answer: try.Answer,
	}
}

// testWebhook sends a test event to an endpoint.
func (s *Server) testWebhook(ctx context.Context, r *request, id uuid.UUID) error {
	delivery, err := s.developer.Webhooks.Test(ctx, r.session.AccountID, id, s.developer.Now())
	return writeStarted(r.http, delivery, err)
}

// listWebhookDeliveries lists what was and is to be delivered to an endpoint, newest first.
func (s *Server) listWebhookDeliveries(ctx context.Context, r *request, id uuid.UUID) error {
	limit, before, query := defaultDeliveryPage, uuid.NullUUID{}, readQuery(r.http)
	query.integer("limit", &limit, 1, webhooks.MaxDeliveryPage)
	query.match("before", "must be a UUID", func(text string) bool {
		before.UUID, before.Valid = parseUUID(text)
		return before.Valid
	})
	if err := query.err(); err != nil {
		return err
	}
	page, err := s.developer.Webhooks.Deliveries(ctx, r.session.AccountID, id, before, limit)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Deliveries []shownDelivery `json:"deliveries"`
		HasMore    bool            `json:"has_more"`
	}{mapped(page.Deliveries, newShownDelivery), page.More})
}

// getWebhookDelivery shows one delivery with its tries.
func (s *Server) getWebhookDelivery(ctx context.Context, r *request, id uuid.UUID) error {
	delivery, err := pathUUID(r, "delivery_id")
	if err != nil {
		return err
	}
	detail, err := s.developer.Webhooks.Delivery(ctx, r.session.AccountID, id, delivery)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		shownDelivery
		Tries []shownTry `json:"tries"`
	}{newShownDelivery(detail.Delivery), mapped(detail.Tries, newShownTry)})
}

// redeliverWebhookDelivery sends the event of a delivery once more.
func (s *Server) redeliverWebhookDelivery(ctx context.Context, r *request, id uuid.UUID) error {
	delivery, err := pathUUID(r, "delivery_id")
	if err != nil {
		return err
	}
	started, err := s.developer.Webhooks.Redeliver(ctx, r.session.AccountID, id, delivery)
	return writeStarted(r.http, started, err)
}

// recoverWebhook sends again what did not arrive since a moment.
func (s *Server) recoverWebhook(ctx context.Context, r *request, id uuid.UUID) error {
	body := readJSON(&r.http.Request)
	since := body.timestamp("since")
	if err := body.check("since"); err != nil {
		return err
	}
	recovery, err := s.developer.Webhooks.Recover(ctx, r.session.AccountID, id, *since)
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusAccepted, struct {
		Deliveries int  `json:"deliveries"`
		More       bool `json:"more"`
	}{recovery.Deliveries, recovery.More})
}

// writeStarted tells of a delivery that is on its way, unless err says why it is not.
func writeStarted(ctx *fasthttp.RequestCtx, delivery uuid.UUID, err error) error {
	if err != nil {
		return err
	}
	return writeValue(ctx, fasthttp.StatusAccepted, struct {
		ID uuid.UUID `json:"delivery_id"`
	}{delivery})
}
