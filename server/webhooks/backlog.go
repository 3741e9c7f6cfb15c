package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// MaxCounted is the number up to which the deliveries of an endpoint are counted.
	MaxCounted = 1000
	// MaxListed is the largest length of each list of an Overview: all endpoints that an account can register.
	MaxListed = MaxEndpoints
)

// EndpointDetail is an endpoint with its backlog.
type EndpointDetail struct {
	Endpoint
	// Pending is the number of pending deliveries, counted up to MaxCounted. OldestPendingAt is the creation time of the oldest of
	// these; nil if there is none.
	Pending         int        `json:"pending"`
	OldestPendingAt *time.Time `json:"oldest_pending_at,omitempty"`
	// FailedSince is the number of deliveries that have failed since LastSuccessAt (nil: ever) and were not sent again, counted up to
	// MaxCounted.
	FailedSince int `json:"failed_since"`
}

// List returns an account's endpoints with their backlogs, newest first.
func (e *Endpoints) List(ctx context.Context, account uuid.UUID) ([]EndpointDetail, error) {
	return readByIndex(ctx, e.pool, func(q *webhooksdb.Queries) ([]EndpointDetail, error) {
		return details(ctx, q, account, uuid.NullUUID{})
	})
}

// Get returns one of an account's endpoints with its backlog, or *NotFoundError.
func (e *Endpoints) Get(ctx context.Context, account, id uuid.UUID) (EndpointDetail, error) {
	found, err := readByIndex(ctx, e.pool, func(q *webhooksdb.Queries) ([]EndpointDetail, error) {
		return details(ctx, q, account, uuid.NullUUID{UUID: id, Valid: true})
	})
	if err != nil {
		return EndpointDetail{}, err
	}
	if len(found) == 0 {
		return EndpointDetail{}, &NotFoundError{ID: id.String()}
	}
	return found[0], nil
}

// details returns the endpoints of an account, or one of them.
func details(ctx context.Context, q *webhooksdb.Queries, account uuid.UUID, id uuid.NullUUID) ([]EndpointDetail, error) {
	rows, err := q.BacklogsOfAccount(ctx, webhooksdb.BacklogsOfAccountParams{AccountID: account, ID: id, Bound: MaxCounted})
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	list := make([]EndpointDetail, len(rows))
	for i, row := range rows {
		list[i] = EndpointDetail{Endpoint: endpointOf(row.WebhookEndpoint), Pending: int(row.Pending), FailedSince: int(row.Failed)}
		if row.Pending > 0 {
			list[i].OldestPendingAt = &rows[i].Oldest
		}
	}
	return list, nil
}

// Overview summarizes an account's endpoints. Each list has at most MaxListed.
type Overview struct {
	// Healthy is the number of enabled endpoints that do not fail.
	Healthy int
	// Failing are enabled endpoints, the one that has failed longest first.
	Failing []FailingEndpoint
	// Disabled are the others, newest first.
	Disabled []DisabledEndpoint
}

// FailingEndpoint is an enabled endpoint whose last delivery did not succeed.
type FailingEndpoint struct {
	ID           uuid.UUID
	URL          string
	FailingSince time.Time
	LastStatus   int    // 0 without a response
	LastFailure  string // as in Delivery
	Pending      int    // counted up to MaxCounted
}

// DisabledEndpoint is an endpoint that nothing is sent to.
type DisabledEndpoint struct {
	ID          uuid.UUID
	URL, Reason string
}

// Overview returns the overview of an account's endpoints.
func (e *Endpoints) Overview(ctx context.Context, account uuid.UUID) (Overview, error) {
	return readByIndex(ctx, e.pool, func(q *webhooksdb.Queries) (Overview, error) { return overviewOf(ctx, q, account) })
}

func overviewOf(ctx context.Context, q *webhooksdb.Queries, account uuid.UUID) (Overview, error) {
	healthy, err := q.CountHealthy(ctx, account)
	if err != nil {
		return Overview{}, fmt.Errorf("count healthy endpoints: %w", err)
	}
	failing, err := q.FailingEndpoints(ctx, webhooksdb.FailingEndpointsParams{AccountID: account, Most: MaxListed, Bound: MaxCounted})
	if err != nil {
		return Overview{}, fmt.Errorf("read failing endpoints: %w", err)
	}
	disabled, err := q.DisabledEndpoints(ctx, webhooksdb.DisabledEndpointsParams{AccountID: account, Most: MaxListed})
	if err != nil {
		return Overview{}, fmt.Errorf("read disabled endpoints: %w", err)
	}
	overview := Overview{Healthy: int(healthy)}
	for _, row := range failing {
		overview.Failing = append(overview.Failing, FailingEndpoint{
			ID: row.ID, URL: row.Url, FailingSince: *row.FailingSince, LastStatus: httpStatus(row.LastStatus), LastFailure: row.LastFailure,
			Pending: int(row.Pending),
		})
	}
	for _, row := range disabled {
		overview.Disabled = append(overview.Disabled, DisabledEndpoint{ID: row.ID, URL: row.Url, Reason: row.DisabledReason})
	}
	return overview, nil
}
