package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// MaxEndpoints is how many endpoints an account can register: each event costs a delivery for each of them.
	MaxEndpoints = 50
	// DisableAfter is how long an endpoint can fail without a success before it is disabled.
	DisableAfter = 5 * 24 * time.Hour
	// reasonOwner is the disabled_reason of an endpoint that was disabled over HTTP.
	reasonOwner = "turned off by its owner"
)

// The states of an endpoint.
const (
	StatusEnabled  = "enabled"
	StatusDisabled = "disabled"
)

// Endpoint is a registered receiver. Its JSON is the API's.
type Endpoint struct {
	ID uuid.UUID `json:"id"`
	// AccountID owns the events that are delivered; if it is invalid, the events of all accounts are.
	AccountID   uuid.NullUUID `json:"-"`
	URL         string        `json:"url"`
	Events      []Kind        `json:"events"`
	Description string        `json:"description"`
	// Status is StatusEnabled or StatusDisabled; DisabledReason explains the latter.
	Status         string `json:"status"`
	DisabledReason string `json:"disabled_reason,omitempty"`
	// FailingSince is the time of the first failure since the last success; nil while deliveries succeed.
	FailingSince *time.Time `json:"failing_since,omitempty"`
	// DisablesAt is the time after which another failure disables the endpoint, unless a delivery succeeds; nil if FailingSince
	// is nil or the endpoint is disabled.
	DisablesAt *time.Time `json:"disables_at,omitempty"`
	// LastStatus is the HTTP status of the last attempt; 0 if there was no response or no attempt. LastFailure is its failure, as in
	// Delivery.
	LastStatus    int        `json:"last_status,omitzero"`
	LastFailure   string     `json:"last_failure,omitempty"`
	LastSuccessAt *time.Time `json:"last_success_at,omitempty"`
	// ManagedBy is the cluster/namespace/name of the resource that declares the endpoint; empty if it was registered over HTTP.
	ManagedBy string    `json:"managed_by,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// Registration is a new endpoint.
type Registration struct {
	AccountID   uuid.UUID
	URL         string
	Events      []Kind
	Description string
}

// Change has the new values of an endpoint; nil keeps a value. Events that are empty, not nil, are refused.
type Change struct {
	URL         *string
	Events      []Kind
	Description *string
	// Enabled stops deliveries, or starts them again, also if the service stopped them. Events that happen in between are not
	// delivered later. After a stop the workers cancel pending deliveries, within seconds if there are few; those that are still
	// pending when deliveries start again are delivered.
	Enabled *bool
}

// Endpoints stores the endpoints that accounts register. It records each change in the audit log.
type Endpoints struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keyring *Keyring
	policy  *AddressPolicy
}

// NewEndpoints returns a store on pool. keyring encrypts secrets; policy decides which addresses URLs can contain.
func NewEndpoints(pool *pgxpool.Pool, keyring *Keyring, policy *AddressPolicy) *Endpoints {
	return &Endpoints{pool: pool, queries: webhooksdb.New(pool), keyring: keyring, policy: policy}
}

// Register stores a new endpoint and returns it with its signing secret, which is not shown again. It returns *LimitError if the
// account has MaxEndpoints.
func (e *Endpoints) Register(ctx context.Context, r Registration) (Endpoint, string, error) {
	if err := validate(e.policy, r.URL, r.Events, r.Description); err != nil {
		return Endpoint{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("new endpoint id: %w", err)
	}
	registered := Endpoint{
		ID: id, AccountID: uuid.NullUUID{UUID: r.AccountID, Valid: true}, URL: r.URL, Events: r.Events,
		Description: r.Description, Status: StatusEnabled,
	}
	secret := NewSecret()
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		if err := checkEndpointLimit(ctx, q, r.AccountID); err != nil {
			return err
		}
		registered.CreatedAt, err = q.InsertEndpoint(ctx, webhooksdb.InsertEndpointParams{
			ID: id, AccountID: registered.AccountID, Url: r.URL, Events: kindStrings(r.Events), Description: r.Description,
		})
		if err != nil {
			return err
		}
		if err := addSecret(ctx, q, e.keyring, id, secret); err != nil {
			return err
		}
		return audit.Record(ctx, tx, auditCreated(registered))
	})
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("register endpoint: %w", err)
	}
	return registered, secret, nil
}

// checkEndpointLimit lets the registrations of one account wait for each other, so that the limit is exact.
func checkEndpointLimit(ctx context.Context, q *webhooksdb.Queries, account uuid.UUID) error {
	if err := q.LockAccount(ctx, account); err != nil {
		return err
	}
	count, err := q.CountEndpoints(ctx, account)
	if err != nil {
		return err
	}
	if count >= MaxEndpoints {
		return &LimitError{Max: MaxEndpoints}
	}
	return nil
}

func endpointOfAccount(ctx context.Context, q *webhooksdb.Queries, account, id uuid.UUID) (webhooksdb.WebhookEndpoint, error) {
	row, err := q.EndpointOfAccount(ctx, webhooksdb.EndpointOfAccountParams{ID: id, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, &NotFoundError{ID: id.String()}
	}
	if err != nil {
		return row, fmt.Errorf("read endpoint: %w", err)
	}
	return row, nil
}

// Update changes an endpoint and returns it. If nothing changes, it writes only the audit record.
func (e *Endpoints) Update(ctx context.Context, account, id uuid.UUID, change Change) (Endpoint, error) {
	if err := change.validate(e.policy); err != nil {
		return Endpoint{}, err
	}
	var updated webhooksdb.WebhookEndpoint
	err := e.updateLocked(ctx, account, id, func(q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint) (entry audit.Entry, err error) {
		want := change.apply(row)
		updated, err = update(ctx, q, row, want)
		return auditUpdated(row, want), err
	})
	return endpointOf(updated), err
}

// apply returns the values of row after the change.
func (c Change) apply(row webhooksdb.WebhookEndpoint) webhooksdb.ChangeEndpointParams {
	want := webhooksdb.ChangeEndpointParams{
		ID: row.ID, Url: row.Url, Events: row.Events, Description: row.Description,
		Status: row.Status, DisabledReason: row.DisabledReason,
	}
	if c.URL != nil {
		want.Url = *c.URL
	}
	if c.Events != nil {
		want.Events = kindStrings(c.Events)
	}
	if c.Description != nil {
		want.Description = *c.Description
	}
	switch {
	case c.Enabled == nil:
	case *c.Enabled:
		want.Status, want.DisabledReason = StatusEnabled, ""
	case row.Status == StatusEnabled:
		want.Status, want.DisabledReason = StatusDisabled, reasonOwner
	}
	return want
}

// update writes a locked row's new values, if they differ. The workers cancel pending deliveries of an endpoint that is disabled then.
func update(
	ctx context.Context, q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint, want webhooksdb.ChangeEndpointParams,
) (webhooksdb.WebhookEndpoint, error) {
	if row.Url == want.Url && slices.Equal(row.Events, want.Events) && row.Description == want.Description &&
		row.Status == want.Status && row.DisabledReason == want.DisabledReason {
		return row, nil
	}
	return q.ChangeEndpoint(ctx, want)
}

// Delete deletes an endpoint. After it returns, only attempts in flight are still made, and the workers cancel the pending deliveries.
func (e *Endpoints) Delete(ctx context.Context, account, id uuid.UUID) error {
	return e.updateLocked(ctx, account, id, func(q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint) (audit.Entry, error) {
		return auditDeleted(row), remove(ctx, q, id)
	})
}

// RotateSecret returns a new signing secret. The old one also signs for 24 hours, or until the next rotation.
func (e *Endpoints) RotateSecret(ctx context.Context, account, id uuid.UUID) (string, error) {
	secret := NewSecret()
	err := e.updateLocked(ctx, account, id, func(q *webhooksdb.Queries, _ webhooksdb.WebhookEndpoint) (audit.Entry, error) {
		return audit.Entry{Action: audit.WebhookRotateSecret}, rotateSecret(ctx, q, e.keyring, id, secret)
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// updateLocked calls change in a transaction that has locked the endpoint's row, and records the entry that change returns. It
// returns *ManagedError for an endpoint that a resource declares.
func (e *Endpoints) updateLocked(
	ctx context.Context, account, id uuid.UUID,
	change func(*webhooksdb.Queries, webhooksdb.WebhookEndpoint) (audit.Entry, error),
) error {
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		row, err := lockEndpoint(ctx, q, account, id)
		if err != nil {
			return err
		}
		if row.ManagedBy != nil {
			return &ManagedError{Owner: *row.ManagedBy}
		}
		entry, err := change(q, row)
		if err != nil {
			return err
		}
		entry.Account, entry.Target = account, id.String()
		return audit.Record(ctx, tx, entry)
	})
	if err != nil {
		return fmt.Errorf("change endpoint: %w", err)
	}
	return nil
}

// lockEndpoint locks the row of an account's endpoint until the transaction ends, and returns it, or *NotFoundError.
func lockEndpoint(ctx context.Context, q *webhooksdb.Queries, account, id uuid.UUID) (webhooksdb.WebhookEndpoint, error) {
	row, err := q.LockEndpointOfAccount(ctx, webhooksdb.LockEndpointOfAccountParams{ID: id, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, &NotFoundError{ID: id.String()}
	}
	return row, err
}

// remove deletes an endpoint. A delivery without an endpoint is never leased, and the workers cancel it.
func remove(ctx context.Context, q *webhooksdb.Queries, id uuid.UUID) error {
	return q.RemoveEndpoint(ctx, id)
}

func endpointOf(row webhooksdb.WebhookEndpoint) Endpoint {
	endpoint := Endpoint{
		ID: row.ID, AccountID: row.AccountID, URL: row.Url, Description: row.Description, Status: row.Status,
		DisabledReason: row.DisabledReason, CreatedAt: row.CreatedAt, FailingSince: row.FailingSince,
		LastStatus: httpStatus(row.LastStatus), LastFailure: row.LastFailure, LastSuccessAt: row.LastSuccessAt, Events: parseKinds(row.Events),
	}
	if row.Status == StatusEnabled && row.FailingSince != nil {
		endpoint.DisablesAt = new(row.FailingSince.Add(DisableAfter))
	}
	if row.ManagedBy != nil {
		endpoint.ManagedBy = *row.ManagedBy
	}
	return endpoint
}

// httpStatus returns a status as it is stored, 0 for NULL: there was no response.
func httpStatus(stored *int32) int {
	if stored == nil {
		return 0
	}
	return int(*stored)
}

func auditCreated(e Endpoint) audit.Entry {
	return audit.Entry{
		Account: e.AccountID.UUID, Action: audit.WebhookCreate, Target: e.ID.String(),
		Detail: map[string]any{"host": hostOf(e.URL), "events": e.Events},
	}
}

// auditUpdated records which fields change, and their new values if these are not secret.
func auditUpdated(row webhooksdb.WebhookEndpoint, want webhooksdb.ChangeEndpointParams) audit.Entry {
	changed := []string{}
	detail := map[string]any{}
	if row.Url != want.Url {
		changed, detail["host"] = append(changed, "url"), hostOf(want.Url)
	}
	if !slices.Equal(row.Events, want.Events) {
		changed, detail["events"] = append(changed, "events"), want.Events
	}
	if row.Description != want.Description {
		changed = append(changed, "description")
	}
	if row.Status != want.Status {
		changed, detail["status"] = append(changed, "status"), want.Status
	}
	detail["changed"] = changed
	return audit.Entry{Action: audit.WebhookUpdate, Detail: detail}
}

func auditDeleted(row webhooksdb.WebhookEndpoint) audit.Entry {
	return audit.Entry{Action: audit.WebhookDelete, Detail: map[string]any{"host": hostOf(row.Url)}}
}

// hostOf returns the host of a receiver's URL: paths and queries can contain tokens.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}
