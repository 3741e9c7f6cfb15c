package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// DefaultRetention is how long events, deliveries and attempts are kept.
	DefaultRetention = 30 * 24 * time.Hour
	// MinRetention keeps deliveries from disappearing while someone is reading them.
	MinRetention = 24 * time.Hour
	// MaxRecovery is how many deliveries one call of Recover makes.
	MaxRecovery = 1000
	// RecoveryWindow is how far back Recover goes: the workers' default retention, because the API does not know theirs. If theirs is
	// shorter, deleted deliveries are not found; if it is longer, Redeliver sends older ones.
	RecoveryWindow = DefaultRetention
)

// State is the state of a delivery.
type State string

// The states. Only a pending delivery changes.
const (
	StatePending   State = "pending"
	StateDelivered State = "delivered"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
)

// States returns all states.
func States() []State { return []State{StatePending, StateDelivered, StateFailed, StateCancelled} }

// Delivery is one event for one endpoint. Its JSON is the API's.
type Delivery struct {
	ID      uuid.UUID `json:"id"`
	EventID uuid.UUID `json:"event_id"`
	Kind    Kind      `json:"event"`
	State   State     `json:"state"`
	// Attempts is how many attempts have started.
	Attempts int `json:"attempts"`
	// NextAttemptAt is the time of the next attempt of a pending delivery.
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	// LastStatus is the HTTP status of the last attempt; 0 if there was no response. LastFailure is its failure: status, redirect,
	// timeout, dns, tls, connection, refused_address, url, cancelled, worker_lost, internal; empty for none.
	LastStatus  int        `json:"last_status,omitzero"`
	LastFailure string     `json:"last_failure,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
}

// Attempt is one request to a receiver and its result.
type Attempt struct {
	// Number counts from 1.
	Number    int       `json:"attempt"`
	StartedAt time.Time `json:"began_at"`
	// Milliseconds is its duration.
	Milliseconds int64 `json:"duration_ms"`
	// Status is the HTTP status; 0 if there was no response.
	Status int `json:"status,omitzero"`
	// Failure is as in Delivery.
	Failure string `json:"failure,omitempty"`
	// Response is the start of the response's body, redacted.
	Response string `json:"answer,omitempty"`
}

// DeliveryDetail is a delivery with its log.
type DeliveryDetail struct {
	Delivery
	// Attempts are the attempts that have ended, oldest first.
	Attempts []Attempt `json:"tries"`
}

// Recovery is the result of one call of Recover, or what such a call would do.
type Recovery struct {
	// Deliveries is the number of new deliveries.
	Deliveries int `json:"deliveries"`
	// More reports whether another call has more to recover.
	More bool `json:"more"`
}

// Deliveries reads and repeats the deliveries of an account's endpoints, including those that resources declare. It shows only
// deliveries of the account's own events and of events for all accounts. list.go lists them.
type Deliveries struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	wake    func(endpoint uuid.UUID)
}

// NewDeliveries returns deliveries on pool. wake is called with the endpoint of each new delivery after its commit; it must not
// block.
func NewDeliveries(pool *pgxpool.Pool, wake func(endpoint uuid.UUID)) *Deliveries {
	return &Deliveries{pool: pool, queries: webhooksdb.New(pool), wake: wake}
}

// Get returns one delivery to an endpoint with its attempts. If List does not show the delivery, it returns *NotFoundError.
func (d *Deliveries) Get(ctx context.Context, account, endpoint, delivery uuid.UUID) (DeliveryDetail, error) {
	if _, err := endpointOfAccount(ctx, d.queries, account, endpoint); err != nil {
		return DeliveryDetail{}, err
	}
	row, err := d.queries.DeliveryOfEndpoint(ctx, webhooksdb.DeliveryOfEndpointParams{DeliveryID: delivery, EndpointID: endpoint, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return DeliveryDetail{}, &NotFoundError{ID: delivery.String()}
	}
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("read delivery: %w", err)
	}
	attempts, err := d.queries.AttemptsOfDelivery(ctx, delivery)
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("read attempts: %w", err)
	}
	detail := DeliveryDetail{Delivery: deliveryOf(row), Attempts: make([]Attempt, len(attempts))}
	for i, a := range attempts {
		detail.Attempts[i] = Attempt{
			Number: int(a.Attempt), StartedAt: a.BeganAt, Milliseconds: int64(a.DurationMs),
			Status: httpStatus(a.Status), Failure: a.Failure, Response: a.Response,
		}
	}
	return detail, nil
}

// Test sends an event of KindTest to an endpoint, whatever it subscribes to, and returns the delivery's id. It returns
// *DisabledError if the endpoint is disabled.
func (d *Deliveries) Test(ctx context.Context, account, endpoint uuid.UUID, now time.Time) (id uuid.UUID, err error) {
	err = d.create(ctx, account, endpoint, audit.WebhookTest, func(q *webhooksdb.Queries) (_ map[string]any, err error) {
		eventID, err := q.NewID(ctx) // not by this process's clock, which can be wrong
		if err != nil {
			return nil, err
		}
		event, err := eventOf(eventID, KindTest, uuid.NullUUID{UUID: account, Valid: true}, now, TestSent{EndpointID: endpoint})
		if err != nil {
			return nil, err
		}
		id, err = q.RecordForEndpoint(ctx, webhooksdb.RecordForEndpointParams{
			EventID: event.ID, Kind: string(event.Kind), AccountID: event.Account, Body: event.Body, EndpointID: endpoint,
		})
		return map[string]any{"delivery_id": id}, err
	})
	return id, err
}

// Redeliver sends the event of a delivery again as a new delivery, and returns its id. If a delivery of the event to the endpoint is
// pending, it makes the next attempt of that one due now, and returns its id. The event's body is the same, so a receiver
// recognises a repetition. It returns *DisabledError if the endpoint is disabled.
func (d *Deliveries) Redeliver(ctx context.Context, account, endpoint, delivery uuid.UUID) (id uuid.UUID, err error) {
	err = d.create(ctx, account, endpoint, audit.WebhookRedeliver, func(q *webhooksdb.Queries) (_ map[string]any, err error) {
		id, err = q.Redeliver(ctx, webhooksdb.RedeliverParams{DeliveryID: delivery, EndpointID: endpoint, AccountID: account})
		if errors.Is(err, pgx.ErrNoRows) {
			err = &NotFoundError{ID: delivery.String()}
		}
		return map[string]any{"redelivered": delivery, "delivery_id": id}, err
	})
	return id, err
}

// Recover sends again the events whose deliveries to an endpoint have failed or were cancelled since a time, up to MaxRecovery, those
// that ended first before the others. It leaves out an event if another of its deliveries to the endpoint is pending or has
// been delivered since then, so a second call sends nothing twice.
//
// It returns *ValidationError for a time in the future or before RecoveryWindow, and *DisabledError if the endpoint is disabled.
func (d *Deliveries) Recover(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (recovery Recovery, err error) {
	err = d.create(ctx, account, endpoint, audit.WebhookRecover, func(q *webhooksdb.Queries) (_ map[string]any, err error) {
		recovery, err = recoverSince(ctx, q, account, endpoint, since, true)
		return map[string]any{"since": since.UTC(), "deliveries": recovery.Deliveries, "more": recovery.More}, err
	})
	if err != nil {
		return Recovery{}, err
	}
	return recovery, nil
}

// Recoverable returns what Recover would do now, with the same errors. It sends and records nothing.
func (d *Deliveries) Recoverable(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (Recovery, error) {
	row, err := endpointOfAccount(ctx, d.queries, account, endpoint)
	if err != nil {
		return Recovery{}, err
	}
	recovery, err := recoverSince(ctx, d.queries, account, endpoint, since, false)
	if err != nil {
		return Recovery{}, fmt.Errorf("count deliveries to recover: %w", err)
	}
	if row.Status != StatusEnabled {
		return Recovery{}, &DisabledError{Reason: row.DisabledReason}
	}
	return recovery, nil
}

// recoverSince finds the deliveries that a recovery sends, and sends them if send is true.
func recoverSince(ctx context.Context, q *webhooksdb.Queries, account, endpoint uuid.UUID, since time.Time, send bool) (Recovery, error) {
	now, err := q.DatabaseTime(ctx) // the clock of finished_at
	switch {
	case err != nil:
		return Recovery{}, err
	case since.After(now):
		return Recovery{}, &ValidationError{Field: "since", Detail: "must not be in the future"}
	case since.Before(now.Add(-RecoveryWindow)):
		return Recovery{}, &ValidationError{Field: "since", Detail: fmt.Sprintf("must be within the last %d days", int(RecoveryWindow.Hours()/24))}
	}
	found, err := q.RecoverDeliveries(ctx, webhooksdb.RecoverDeliveriesParams{
		EndpointID: endpoint, AccountID: account, Since: since, Most: MaxRecovery, Page: MaxRecovery + 1, Send: send,
	})
	return Recovery{Deliveries: int(found.Deliveries), More: found.Missed > MaxRecovery}, err
}

// create calls write in a transaction that has locked the endpoint's row, records action with the detail that write returns, and
// wakes the workers after the commit. The lock lets the calls for one endpoint wait for each other, so that nothing is sent twice.
// The status is checked after write, so that a mistake of the caller is reported first.
func (d *Deliveries) create(
	ctx context.Context, account, endpoint uuid.UUID, action audit.Action, write func(*webhooksdb.Queries) (detail map[string]any, err error),
) error {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		q := d.queries.WithTx(tx)
		row, err := lockEndpoint(ctx, q, account, endpoint)
		if err != nil {
			return err
		}
		detail, err := write(q)
		if err != nil {
			return err
		}
		if row.Status != StatusEnabled {
			return &DisabledError{Reason: row.DisabledReason}
		}
		return audit.Record(ctx, tx, audit.Entry{Account: account, Action: action, Target: endpoint.String(), Detail: detail})
	})
	if err != nil {
		return fmt.Errorf("create delivery: %w", err)
	}
	d.wake(endpoint)
	return nil
}
