package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// MaxDeliveryPage is the largest page of deliveries.
	MaxDeliveryPage = 100
	// MaxWalk is how many deliveries List reads for one page.
	MaxWalk = 10_000
)

// DeliveryFilter selects deliveries to an endpoint. Its zero value selects all.
type DeliveryFilter struct {
	State State // empty: any
	Kind  Kind  // empty: any
	// Since is the earliest creation time.
	Since time.Time
	// Before is a delivery to the endpoint; only older ones are selected. Invalid: from the newest on.
	Before uuid.NullUUID
}

// DeliveryPage is a page of an endpoint's deliveries, newest first.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	// More reports whether there can be older ones. They come before NextBefore, which the filter can leave out; else it is zero.
	More       bool      `json:"has_more"`
	NextBefore uuid.UUID `json:"next_before,omitzero"`
}

// List returns up to limit (1 to MaxDeliveryPage) deliveries to an endpoint that filter selects, newest first. It reads at most MaxWalk
// deliveries, so a page can be shorter, or empty, and not the last. A walk by the NextBefore of each page finds each delivery
// that existed at its start exactly once. If filter.Before is not a delivery to this endpoint, it returns *ValidationError.
func (d *Deliveries) List(ctx context.Context, account, endpoint uuid.UUID, filter DeliveryFilter, limit int) (DeliveryPage, error) {
	if limit < 1 || limit > MaxDeliveryPage {
		return DeliveryPage{}, &ValidationError{Field: "limit", Detail: fmt.Sprintf("must be 1 to %d", MaxDeliveryPage)}
	}
	return readByIndex(ctx, d.pool, func(q *webhooksdb.Queries) (DeliveryPage, error) {
		return list(ctx, q, account, endpoint, filter, limit, MaxWalk)
	})
}

// readByIndex returns the result of read in a transaction whose statements read by index.
func readByIndex[T any](ctx context.Context, pool *pgxpool.Pool, read func(*webhooksdb.Queries) (T, error)) (result T, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		q := webhooksdb.New(tx)
		if err := q.ReadByIndex(ctx); err != nil {
			return fmt.Errorf("set the planner: %w", err)
		}
		result, err = read(q)
		return err
	})
	if err != nil {
		return result, fmt.Errorf("read webhooks: %w", err)
	}
	return result, nil
}

// list is Deliveries.List that reads at most walk deliveries.
func list(
	ctx context.Context, q *webhooksdb.Queries, account, endpoint uuid.UUID, filter DeliveryFilter, limit int, walk int32,
) (DeliveryPage, error) {
	if _, err := endpointOfAccount(ctx, q, account, endpoint); err != nil {
		return DeliveryPage{}, err
	}
	arg := webhooksdb.DeliveriesOfEndpointParams{
		EndpointIds: []uuid.UUID{endpoint}, AccountID: account, Before: uuid.Max, Since: filter.Since,
		State: string(filter.State), Event: string(filter.Kind), Page: int32(limit) + 1, Walk: walk,
	}
	if filter.Before.Valid {
		arg.Before = filter.Before.UUID
		if err := checkCursor(ctx, q, account, endpoint, arg.Before); err != nil {
			return DeliveryPage{}, err
		}
	}
	rows, err := readRows(ctx, q, endpoint, filter.State, arg)
	if err != nil {
		return DeliveryPage{}, fmt.Errorf("list deliveries: %w", err)
	}
	return pageOf(rows, limit), nil
}

// readRows returns rows by the index that suits the state. The index of pending rows is not in the order of ids. It is used if there are at
// most arg.Walk of them, and they are sorted.
func readRows(
	ctx context.Context, q *webhooksdb.Queries, endpoint uuid.UUID, state State, arg webhooksdb.DeliveriesOfEndpointParams,
) (rows []webhooksdb.DeliveriesOfEndpointRow, err error) {
	switch state {
	case StateFailed, StateCancelled:
		ended, err := q.EndedDeliveries(ctx, webhooksdb.EndedDeliveriesParams(arg))
		for _, row := range ended {
			rows = append(rows, webhooksdb.DeliveriesOfEndpointRow(row))
		}
		return rows, err
	case StatePending:
		count, err := q.CountPending(ctx, webhooksdb.CountPendingParams{EndpointID: endpoint, Bound: arg.Walk + 1})
		if err != nil {
			return nil, err
		}
		if count > int64(arg.Walk) {
			break
		}
		pending, err := q.PendingDeliveries(ctx, webhooksdb.PendingDeliveriesParams{
			EndpointID: endpoint, AccountID: arg.AccountID, Before: arg.Before, Since: arg.Since, Event: arg.Event, Page: arg.Page, Walk: arg.Walk,
		})
		for _, row := range pending {
			rows = append(rows, webhooksdb.DeliveriesOfEndpointRow(row))
		}
		return rows, err
	case StateDelivered:
	}
	return q.DeliveriesOfEndpoint(ctx, arg)
}

func pageOf(rows []webhooksdb.DeliveriesOfEndpointRow, limit int) (page DeliveryPage) {
	for _, row := range rows {
		if len(page.Deliveries) == limit {
			page.More, page.NextBefore = true, page.Deliveries[limit-1].ID
			return page
		}
		if row.Matches {
			page.Deliveries = append(page.Deliveries, deliveryOf(webhooksdb.DeliveryOfEndpointRow{
				ID: row.ID, EventID: row.EventID, Event: row.Event, State: row.State, Attempt: row.Attempt, NextAttemptAt: row.NextAttemptAt,
				LastStatus: row.LastStatus, LastFailure: row.LastFailure, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
			}))
		}
		if row.Ends {
			page.More, page.NextBefore = true, row.ID
		}
	}
	return page
}

func checkCursor(ctx context.Context, q *webhooksdb.Queries, account, endpoint, id uuid.UUID) error {
	known, err := q.HasDelivery(ctx, webhooksdb.HasDeliveryParams{DeliveryID: id, EndpointID: endpoint, AccountID: account})
	if err != nil {
		return fmt.Errorf("find delivery: %w", err)
	}
	if !known {
		return &ValidationError{Field: "before", Detail: "must be a delivery of this webhook"}
	}
	return nil
}

func deliveryOf(row webhooksdb.DeliveryOfEndpointRow) Delivery {
	delivery := Delivery{
		ID: row.ID, EventID: row.EventID, Kind: Kind(row.Event), State: State(row.State), Attempts: int(row.Attempt),
		LastStatus: httpStatus(row.LastStatus), LastFailure: row.LastFailure, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
	}
	if delivery.State == StatePending {
		delivery.NextAttemptAt = &row.NextAttemptAt
	}
	return delivery
}
