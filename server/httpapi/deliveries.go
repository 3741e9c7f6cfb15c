package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/sessions"
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
	LastStatus    int           `json:"last_status,omitempty"`
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
	Status     int       `json:"status,omitempty"`
	Failure    string    `json:"failure,omitempty"`
	Answer     string    `json:"answer,omitempty"`
}

// testWebhook sends a test event to an endpoint.
func (s *Server) testWebhook(ctx context.Context, r *request, session sessions.Session) error {
	id, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	delivery, err := s.developer.Webhooks.Test(ctx, session.AccountID, id, s.developer.now())
	if err != nil {
		return ofDeveloper(err)
	}
	return writeStarted(r.http, delivery)
}

// listWebhookDeliveries lists what was and is to be delivered to an endpoint, newest first.
func (s *Server) listWebhookDeliveries(ctx context.Context, r *request, session sessions.Session) error {
	id, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	limit, before := defaultDeliveryPage, uuid.NullUUID{}
	if err := decodeQuery(r.http.URI().QueryString(),
		queryInteger("limit", &limit, 1, webhooks.MaxDeliveryPage),
		queryUUID("before", &before),
	); err != nil {
		return err
	}
	page, err := s.developer.Webhooks.Deliveries(ctx, session.AccountID, id, before, limit)
	if err != nil {
		return ofDeveloper(err)
	}
	list := make([]shownDelivery, len(page.Deliveries))
	for i, delivery := range page.Deliveries {
		list[i] = newShownDelivery(delivery)
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Deliveries []shownDelivery `json:"deliveries"`
		HasMore    bool            `json:"has_more"`
	}{list, page.More})
}

// getWebhookDelivery shows one delivery with its tries.
func (s *Server) getWebhookDelivery(ctx context.Context, r *request, session sessions.Session) error {
	endpoint, delivery, err := deliveryIDs(ctx, r)
	if err != nil {
		return err
	}
	detail, err := s.developer.Webhooks.Delivery(ctx, session.AccountID, endpoint, delivery)
	if err != nil {
		return ofDeveloper(err)
	}
	tries := make([]shownTry, len(detail.Tries))
	for i, try := range detail.Tries {
		tries[i] = shownTry{
			Attempt: try.Attempt, BeganAt: try.BeganAt.UTC(), DurationMS: try.Duration.Milliseconds(),
			Status: try.Status, Failure: try.Failure, Answer: try.Answer,
		}
	}
	return writeValue(r.http, fasthttp.StatusOK, struct {
		shownDelivery
		Tries []shownTry `json:"tries"`
	}{newShownDelivery(detail.Delivery), tries})
}

// deliveryIDs reads the endpoint and the delivery that a path names.
func deliveryIDs(ctx context.Context, r *request) (endpoint, delivery uuid.UUID, err error) {
	if endpoint, err = pathID(ctx, r, "id"); err != nil {
		return uuid.Nil, uuid.Nil, err
	}
	delivery, err = pathID(ctx, r, "delivery_id")
	return endpoint, delivery, err
}

// redeliverWebhookDelivery sends the event of a delivery once more.
func (s *Server) redeliverWebhookDelivery(ctx context.Context, r *request, session sessions.Session) error {
	endpoint, delivery, err := deliveryIDs(ctx, r)
	if err != nil {
		return err
	}
	started, err := s.developer.Webhooks.Redeliver(ctx, session.AccountID, endpoint, delivery)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeStarted(r.http, started)
}

// recoverWebhook sends again what did not arrive since a moment.
func (s *Server) recoverWebhook(ctx context.Context, r *request, session sessions.Session) error {
	var since *time.Time
	if err := decodeBody(r.http, bodyField{"since", true, timestamp(&since)}); err != nil {
		return err
	}
	endpoint, err := pathID(ctx, r, "id")
	if err != nil {
		return err
	}
	recovery, err := s.developer.Webhooks.Recover(ctx, session.AccountID, endpoint, *since)
	if err != nil {
		return ofDeveloper(err)
	}
	return writeValue(r.http, fasthttp.StatusAccepted, struct {
		Deliveries int  `json:"deliveries"`
		More       bool `json:"more"`
	}{recovery.Deliveries, recovery.More})
}

// writeStarted tells of a delivery that is on its way.
func writeStarted(ctx *fasthttp.RequestCtx, delivery uuid.UUID) error {
	return writeValue(ctx, fasthttp.StatusAccepted, struct {
		ID uuid.UUID `json:"delivery_id"`
	}{delivery})
}
