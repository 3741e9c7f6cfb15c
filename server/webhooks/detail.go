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

// Try is one request to a receiver, and what came of it.
type Try struct {
	// Attempt is its number, from 1.
	Attempt int       `json:"attempt"`
	BeganAt time.Time `json:"began_at"`
	// Milliseconds is how long it took.
	Milliseconds int64 `json:"duration_ms"`
	// Status is the HTTP status of the answer; 0 when none came.
	Status int `json:"status,omitzero"`
	// Failure is the class of what went wrong, as in Delivery; empty for none.
	Failure string `json:"failure,omitempty"`
	// Answer is how the answer's body begins, bounded and cleaned.
	Answer string `json:"answer,omitempty"`
}

// DeliveryDetail is a delivery with its log.
type DeliveryDetail struct {
	Delivery
	// Tries are those that have ended, the first one first.
	Tries []Try `json:"tries"`
}

// Delivery returns one delivery to one of an account's endpoints. One that Deliveries would not list is not found.
func (e *Endpoints) Delivery(ctx context.Context, account, endpoint, delivery uuid.UUID) (DeliveryDetail, error) {
	if _, err := e.Get(ctx, account, endpoint); err != nil {
		return DeliveryDetail{}, err
	}
	row, err := e.queries.DeliveryOfEndpoint(ctx, webhooksdb.DeliveryOfEndpointParams{
		DeliveryID: delivery, EndpointID: endpoint, AccountID: account,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return DeliveryDetail{}, &NotFoundError{ID: delivery.String()}
	}
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("read delivery: %w", err)
	}
	tries, err := e.queries.TriesOfDelivery(ctx, delivery)
	if err != nil {
		return DeliveryDetail{}, fmt.Errorf("read tries: %w", err)
	}
	detail := DeliveryDetail{Delivery: deliveryOf(webhooksdb.DeliveriesOfEndpointRow(row)), Tries: make([]Try, len(tries))}
	for i, try := range tries {
		detail.Tries[i] = Try{
			Attempt: int(try.Attempt), BeganAt: try.BeganAt, Milliseconds: int64(try.DurationMs),
			Status: statusOf(try.Status), Failure: try.Failure, Answer: try.Response,
		}
	}
	return detail, nil
}
