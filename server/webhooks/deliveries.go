package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/webhooksdb"
)

// MaxDeliveryPage is the most deliveries that Deliveries returns at once.
const MaxDeliveryPage = 100

// Delivery is an event on its way to an endpoint, or at its end.
type Delivery struct {
	ID, EventID uuid.UUID
	Kind        Kind
	// State is pending, delivered, failed or cancelled.
	State string
	// Attempts is how many tries have begun.
	Attempts int
	// NextAttemptAt is when the next try is due, while the delivery is pending.
	NextAttemptAt *time.Time
	// LastStatus is the HTTP status of the last try; 0 when no answer came. LastFailure is the class of what went wrong:
	// status, redirect, timeout, dns, tls, connection, refused_address; empty for none.
	LastStatus  int
	LastFailure string
	CreatedAt   time.Time
	FinishedAt  *time.Time
}

// Deliveries returns up to limit (1 to MaxDeliveryPage) deliveries of one of an account's endpoints, newest first, from
// before the delivery named before (uuid.Nil: from the newest on).
func (e *Endpoints) Deliveries(ctx context.Context, account, endpoint, before uuid.UUID, limit int) ([]Delivery, error) {
	if limit < 1 || limit > MaxDeliveryPage {
		return nil, &ValidationError{Field: "limit", Detail: fmt.Sprintf("must be from 1 to %d", MaxDeliveryPage)}
	}
	if _, err := e.Get(ctx, account, endpoint); err != nil {
		return nil, err
	}
	if before == uuid.Nil {
		before = uuid.Max
	}
	rows, err := e.queries.DeliveriesOfEndpoint(ctx, webhooksdb.DeliveriesOfEndpointParams{
		EndpointID: endpoint, Before: before, Page: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list := make([]Delivery, len(rows))
	for i, row := range rows {
		list[i] = Delivery{
			ID: row.ID, EventID: row.EventID, Kind: Kind(row.Kind), State: row.State, Attempts: int(row.Attempt),
			LastFailure: row.LastError, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
		}
		if row.LastStatus != nil {
			list[i].LastStatus = int(*row.LastStatus)
		}
		if row.State == "pending" {
			list[i].NextAttemptAt = &row.NextAttemptAt
		}
	}
	return list, nil
}

// Redeliver sends the event of a delivery once more, with tries of its own, and returns the new delivery's id. The body
// and its id are the same: a receiver that has it already sees that.
func (e *Endpoints) Redeliver(ctx context.Context, account, endpoint, delivery uuid.UUID) (uuid.UUID, error) {
	if err := e.deliverable(ctx, account, endpoint); err != nil {
		return uuid.Nil, err
	}
	id, err := e.queries.Redeliver(ctx, webhooksdb.RedeliverParams{DeliveryID: delivery, EndpointID: endpoint})
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, &NotFoundError{ID: delivery.String()}
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("redeliver: %w", err)
	}
	e.wake(ctx)
	return id, nil
}

// Test sends an event of KindTest to an endpoint, whatever it subscribed to, and returns the delivery's id.
func (e *Endpoints) Test(ctx context.Context, account, endpoint uuid.UUID, now time.Time) (uuid.UUID, error) {
	if err := e.deliverable(ctx, account, endpoint); err != nil {
		return uuid.Nil, err
	}
	event, err := NewEvent(KindTest, uuid.NullUUID{UUID: account, Valid: true}, now, TestSent{EndpointID: endpoint})
	if err != nil {
		return uuid.Nil, err
	}
	id, err := e.queries.RecordForEndpoint(ctx, webhooksdb.RecordForEndpointParams{
		EventID: event.ID, Kind: string(event.Kind), AccountID: event.Account, Body: event.Body, EndpointID: endpoint,
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("record test event: %w", err)
	}
	e.wake(ctx)
	return id, nil
}

// deliverable refuses endpoints that nothing is sent to.
func (e *Endpoints) deliverable(ctx context.Context, account, endpoint uuid.UUID) error {
	found, err := e.Get(ctx, account, endpoint)
	if err != nil {
		return err
	}
	if found.Status != StatusEnabled {
		return &ValidationError{Field: "status", Detail: "is disabled: " + found.DisabledReason}
	}
	return nil
}

// wake tells the relays; that it fails only means that their sweep comes first.
func (e *Endpoints) wake(ctx context.Context) { _, _ = e.pool.Exec(ctx, "NOTIFY "+outboxChannel) }
