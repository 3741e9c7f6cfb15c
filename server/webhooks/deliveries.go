package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// MaxDeliveryPage is the most deliveries that Deliveries returns at once.
	MaxDeliveryPage = 100
	// MaxByHand is how many tests and redeliveries to an endpoint may be pending.
	MaxByHand = 1000
)

// Delivery is an event on its way to an endpoint, or at its end. Its JSON is the interface's.
type Delivery struct {
	ID      uuid.UUID `json:"id"`
	EventID uuid.UUID `json:"event_id"`
	Kind    Kind      `json:"event"`
	// State is pending, delivered, failed or cancelled.
	State State `json:"state"`
	// Attempts is how many tries have begun.
	Attempts int `json:"attempts"`
	// NextAttemptAt is when the next try is due, while the delivery is pending.
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	// LastStatus is the HTTP status of the last try; 0 when no answer came. LastFailure is the class of what went wrong:
	// status, redirect, timeout, dns, tls, connection, refused_address, url, cancelled, worker_lost; empty for none.
	LastStatus  int        `json:"last_status,omitzero"`
	LastFailure string     `json:"last_failure,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
}

// DeliveryPage is a part of an endpoint's deliveries, newest first.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	// More says that there are older ones.
	More bool `json:"has_more"`
}

// Deliveries returns up to limit (1 to MaxDeliveryPage) deliveries of one of an account's endpoints, newest first, from
// before the delivery named before (invalid: from the newest on). Walking from page to page by the last delivery of each
// finds everything that was there when the walk began, once, however many come meanwhile. A before that is none of these
// deliveries is a *ValidationError.
func (e *Endpoints) Deliveries(
	ctx context.Context, account, endpoint uuid.UUID, before uuid.NullUUID, limit int,
) (DeliveryPage, error) {
	if limit < 1 || limit > MaxDeliveryPage {
		return DeliveryPage{}, &ValidationError{Field: "limit", Detail: fmt.Sprintf("must be 1 to %d", MaxDeliveryPage)}
	}
	if _, err := e.Get(ctx, account, endpoint); err != nil {
		return DeliveryPage{}, err
	}
	from := uuid.Max
	if before.Valid {
		from = before.UUID
		if err := e.isDelivery(ctx, account, endpoint, from); err != nil {
			return DeliveryPage{}, err
		}
	}
	rows, err := e.queries.DeliveriesOfEndpoint(ctx, webhooksdb.DeliveriesOfEndpointParams{
		EndpointID: endpoint, AccountID: account, Before: from, Page: int32(limit) + 1,
	})
	if err != nil {
		return DeliveryPage{}, fmt.Errorf("list deliveries: %w", err)
	}
	page := DeliveryPage{More: len(rows) > limit}
	for _, row := range rows[:min(len(rows), limit)] {
		page.Deliveries = append(page.Deliveries, deliveryOf(row))
	}
	return page, nil
}

// isDelivery refuses a cursor that is none of the deliveries of which it is to name one.
func (e *Endpoints) isDelivery(ctx context.Context, account, endpoint, id uuid.UUID) error {
	known, err := e.queries.HasDelivery(ctx, webhooksdb.HasDeliveryParams{DeliveryID: id, EndpointID: endpoint, AccountID: account})
	if err != nil {
		return fmt.Errorf("find delivery: %w", err)
	}
	if !known {
		return &ValidationError{Field: "before", Detail: "must be a delivery of this webhook"}
	}
	return nil
}

func deliveryOf(row webhooksdb.DeliveriesOfEndpointRow) Delivery {
	delivery := Delivery{
		ID: row.ID, EventID: row.EventID, Kind: Kind(row.Kind), State: State(row.State), Attempts: int(row.Attempt),
		LastStatus: statusOf(row.LastStatus), LastFailure: row.LastFailure, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
	}
	if State(row.State) == StatePending {
		delivery.NextAttemptAt = &row.NextAttemptAt
	}
	return delivery
}

// Redeliver sends the event of a delivery once more, with tries of its own, and returns the new delivery's id. The body
// and its id are the same: a receiver that has it already sees that. A *DisabledError says that nothing is sent to the
// endpoint, a *LimitError that MaxByHand wait for it already, a *BusyError that a recovery is under way, which may send
// the event.
func (e *Endpoints) Redeliver(ctx context.Context, account, endpoint, delivery uuid.UUID) (uuid.UUID, error) {
	again := audit.Entry{Action: audit.WebhookRedeliver, Detail: map[string]any{"redelivered": delivery}}
	return e.send(ctx, account, endpoint, again, func(q *webhooksdb.Queries) (uuid.UUID, error) {
		if free, err := q.LockRedelivery(ctx, endpoint); err != nil || !free {
			return uuid.Nil, cmp.Or[error](err, &BusyError{})
		}
		id, err := q.SendAgain(ctx, webhooksdb.SendAgainParams{DeliveryID: delivery, EndpointID: endpoint, AccountID: account})
		if errors.Is(err, pgx.ErrNoRows) {
			return uuid.Nil, &NotFoundError{ID: delivery.String()}
		}
		return id, err
	})
}

// Test sends an event of KindTest to an endpoint, whatever it subscribed to, and returns the delivery's id. A
// *DisabledError says that nothing is sent to the endpoint, a *LimitError that MaxByHand wait for it already.
func (e *Endpoints) Test(ctx context.Context, account, endpoint uuid.UUID, now time.Time) (uuid.UUID, error) {
	event, err := NewEvent(KindTest, uuid.NullUUID{UUID: account, Valid: true}, now, TestSent{EndpointID: endpoint})
	if err != nil {
		return uuid.Nil, err
	}
	test := audit.Entry{Action: audit.WebhookTest, Detail: map[string]any{}}
	return e.send(ctx, account, endpoint, test, func(q *webhooksdb.Queries) (uuid.UUID, error) {
		return q.RecordForEndpoint(ctx, webhooksdb.RecordForEndpointParams{
			EventID: event.ID, Kind: string(event.Kind), AccountID: event.Account, Body: event.Body, EndpointID: endpoint,
		})
	})
}

// send writes one delivery to one of an account's endpoints, a resource's too, records it, and wakes the relays. Whether
// the endpoint is enabled is asked last, so that what does not exist is not found whatever its state. Its row is not
// locked: a delivery to an endpoint that is turned off meanwhile is refused its lease.
func (e *Endpoints) send(
	ctx context.Context, account, endpoint uuid.UUID, entry audit.Entry, write func(*webhooksdb.Queries) (uuid.UUID, error),
) (uuid.UUID, error) {
	var id uuid.UUID
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		row, err := q.EndpointOfAccount(ctx, webhooksdb.EndpointOfAccountParams{ID: endpoint, AccountID: account})
		if errors.Is(err, pgx.ErrNoRows) {
			return &NotFoundError{ID: endpoint.String()}
		}
		if err != nil {
			return err
		}
		if id, err = write(q); err != nil {
			return err
		}
		if row.Status != StatusEnabled {
			return &DisabledError{Reason: row.DisabledReason}
		}
		if err := roomForOneByHand(ctx, q, endpoint); err != nil {
			return err
		}
		entry.Account, entry.Target = account, endpoint.String()
		entry.Detail["delivery_id"] = id
		return audit.Record(ctx, tx, entry)
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("write delivery: %w", err)
	}
	e.wake(ctx)
	return id, nil
}

// roomForOneByHand refuses the delivery that was just written when too many are pending beside it. Those who ask at the
// same time do not see each other: they may pass the limit by as many as they are.
func roomForOneByHand(ctx context.Context, q *webhooksdb.Queries, endpoint uuid.UUID) error {
	pending, err := q.CountByHand(ctx, webhooksdb.CountByHandParams{EndpointID: endpoint, Most: MaxByHand + 1})
	if err != nil {
		return err
	}
	if pending > MaxByHand {
		return &LimitError{Most: MaxByHand, ByHand: true}
	}
	return nil
}

// wake tells the relays; that it fails only means that their sweep comes first.
func (e *Endpoints) wake(ctx context.Context) { _, _ = e.pool.Exec(ctx, "NOTIFY "+outboxChannel) }
