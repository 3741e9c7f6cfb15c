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

// shownTry is one request to a receiver with its result.
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

// test sends a test event to an endpoint.
func (h *webhookHandlers) test(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := h.store.Test(ctx, r.Session.AccountID, id, h.now())
	return writeStarted(r, delivery, err)
}

// listDeliveries lists the deliveries to an endpoint, newest first.
func (h *webhookHandlers) listDeliveries(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	limit, before, query := defaultDeliveryPage, uuid.NullUUID{}, r.Query()
	query.Integer("limit", &limit, 1, webhooks.MaxDeliveryPage)
	query.Match("before", "must be a UUID", func(text string) bool {
		before.UUID, before.Valid = codec.ParseUUID(text)
		return before.Valid
	})
	if err := query.Check(); err != nil {
		return err
	}
	page, err := h.store.Deliveries(ctx, r.Session.AccountID, id, before, limit)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, struct {
		Deliveries []shownDelivery `json:"deliveries"`
		HasMore    bool            `json:"has_more"`
	}{mapped(page.Deliveries, newShownDelivery), page.More})
}

// getDelivery shows one delivery with its tries.
func (h *webhookHandlers) getDelivery(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := r.UUID("delivery_id")
	if err != nil {
		return err
	}
	detail, err := h.store.Delivery(ctx, r.Session.AccountID, id, delivery)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, struct {
		shownDelivery
		Tries []shownTry `json:"tries"`
	}{newShownDelivery(detail.Delivery), mapped(detail.Tries, newShownTry)})
}

// redeliver sends the event of a delivery once more.
func (h *webhookHandlers) redeliver(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	delivery, err := r.UUID("delivery_id")
	if err != nil {
		return err
	}
	started, err := h.store.Redeliver(ctx, r.Session.AccountID, id, delivery)
	return writeStarted(r, started, err)
}

// recover sends again what did not arrive since a moment.
func (h *webhookHandlers) recover(ctx context.Context, r *endpoint.Request, id uuid.UUID) error {
	body := r.JSON()
	since := body.Time("since")
	if err := body.Check("since"); err != nil {
		return err
	}
	recovery, err := h.store.Recover(ctx, r.Session.AccountID, id, *since)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusAccepted, struct {
		Deliveries int  `json:"deliveries"`
		More       bool `json:"more"`
	}{recovery.Deliveries, recovery.More})
}

// writeStarted sends the id of a delivery that was started, unless err is set.
func writeStarted(r *endpoint.Request, delivery uuid.UUID, err error) error {
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusAccepted, struct {
		ID uuid.UUID `json:"delivery_id"`
	}{delivery})
}
