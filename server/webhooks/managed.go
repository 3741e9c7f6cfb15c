package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/webhooksdb"
)

// ManagedEndpoint is an endpoint as a resource declares it.
type ManagedEndpoint struct {
	// Owner is the resource: cluster/namespace/name.
	Owner       string
	URL         string
	Events      []Kind
	Description string
	// Account is whose events it gets; invalid: everyone's.
	Account uuid.NullUUID
	// Secret is the signing secret, at least 24 bytes.
	Secret string
	// Suspend stops deliveries; events that happen meanwhile are not delivered later.
	Suspend bool
}

// reasonSuspended is the disabled_reason of a suspended resource's endpoint. Only this reason is lifted by the
// resource: one that was disabled for its failures stays so until its URL changes.
const reasonSuspended = "suspended by its resource"

// ApplyManaged makes the endpoint of want.Owner what want says, and returns it. Where that is so already nothing is
// written. A new secret replaces the old one, which signs beside it for 24 hours. Another account makes it another
// endpoint, with an id of its own: neither what was delivered for the former account nor what is pending is the next
// one's to see.
func (e *Endpoints) ApplyManaged(ctx context.Context, want ManagedEndpoint) (Endpoint, error) {
	if err := e.validateManaged(want); err != nil {
		return Endpoint{}, err
	}
	if row, same, err := e.unchanged(ctx, want); err != nil || same {
		return endpointOf(row), err
	}
	var applied webhooksdb.WebhookEndpoint
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		row, err := e.ensureManaged(ctx, q, want)
		if err == nil && row.AccountID != want.Account {
			row, err = e.moveManaged(ctx, q, row, want)
		}
		if err != nil {
			return err
		}
		applied, err = e.changeManaged(ctx, q, row, want)
		return err
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("apply endpoint of %s: %w", want.Owner, err)
	}
	return endpointOf(applied), nil
}

func (e *Endpoints) validateManaged(want ManagedEndpoint) error {
	if err := e.validate(want.URL, want.Events, want.Description); err != nil {
		return err
	}
	if len(want.Secret) < minSecret {
		return &ValidationError{Field: "secret", Detail: fmt.Sprintf("must have at least %d characters", minSecret)}
	}
	return nil
}

// unchanged reports whether the endpoint is what want says, secret included.
func (e *Endpoints) unchanged(ctx context.Context, want ManagedEndpoint) (webhooksdb.WebhookEndpoint, bool, error) {
	row, err := e.queries.ManagedEndpoint(ctx, want.Owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, false, nil
	}
	if err != nil {
		return row, false, fmt.Errorf("read endpoint of %s: %w", want.Owner, err)
	}
	status, reason := wantedStatus(row, want)
	if row.Url != want.URL || row.Description != want.Description || row.AccountID != want.Account ||
		row.Status != status || row.DisabledReason != reason || !slices.Equal(row.Events, texts(want.Events)) {
		return row, false, nil
	}
	current, err := e.currentSecret(ctx, e.queries, row.ID)
	return row, current == want.Secret, err
}

// currentSecret is the newest secret of an endpoint; "" when there is none, or none that opens: then the one that the
// resource brings along takes its place.
func (e *Endpoints) currentSecret(ctx context.Context, q *webhooksdb.Queries, endpoint uuid.UUID) (string, error) {
	rows, err := q.SecretsOfEndpoint(ctx, endpoint)
	if err != nil {
		return "", fmt.Errorf("read signing secrets: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	secret, err := e.keyring.Decrypt(endpoint, rows[0].KeyID, rows[0].Ciphertext)
	if err != nil {
		return "", nil //nolint:nilerr // different from any that is wanted
	}
	return secret, nil
}

// wantedStatus: a suspended resource's endpoint is disabled; one that failed too long stays disabled until its URL
// changes.
func wantedStatus(row webhooksdb.WebhookEndpoint, want ManagedEndpoint) (status, reason string) {
	switch {
	case want.Suspend:
		return StatusDisabled, reasonSuspended
	case row.Status == StatusDisabled && row.DisabledReason != reasonSuspended && row.Url == want.URL:
		return StatusDisabled, row.DisabledReason
	default:
		return StatusEnabled, ""
	}
}

// ensureManaged returns the locked row of the resource's endpoint, made if there is none.
func (e *Endpoints) ensureManaged(
	ctx context.Context, q *webhooksdb.Queries, want ManagedEndpoint,
) (webhooksdb.WebhookEndpoint, error) {
	status, reason := wantedStatus(webhooksdb.WebhookEndpoint{}, want)
	row, err := e.insertManaged(ctx, q, want, status, reason)
	if errors.Is(err, pgx.ErrNoRows) { // it is there already
		return q.LockManagedEndpoint(ctx, want.Owner)
	}
	return row, err
}

// moveManaged puts an endpoint of the wanted account in the place of the locked row. That the receiver failed too long
// stays true of it.
func (e *Endpoints) moveManaged(
	ctx context.Context, q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint, want ManagedEndpoint,
) (webhooksdb.WebhookEndpoint, error) {
	status, reason := wantedStatus(row, want)
	if err := remove(ctx, q, row.ID); err != nil {
		return row, err
	}
	return e.insertManaged(ctx, q, want, status, reason)
}

// insertManaged returns pgx.ErrNoRows where the resource has an endpoint.
func (e *Endpoints) insertManaged(
	ctx context.Context, q *webhooksdb.Queries, want ManagedEndpoint, status, reason string,
) (webhooksdb.WebhookEndpoint, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return webhooksdb.WebhookEndpoint{}, err
	}
	return q.InsertManagedEndpoint(ctx, webhooksdb.InsertManagedEndpointParams{
		ID: id, AccountID: want.Account, Url: want.URL, Events: texts(want.Events), Description: want.Description,
		Status: status, DisabledReason: reason, ManagedBy: &want.Owner,
	})
}

// changeManaged brings the locked row to what want says.
func (e *Endpoints) changeManaged(
	ctx context.Context, q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint, want ManagedEndpoint,
) (webhooksdb.WebhookEndpoint, error) {
	status, reason := wantedStatus(row, want)
	changed, err := q.ChangeEndpoint(ctx, webhooksdb.ChangeEndpointParams{
		ID: row.ID, Url: want.URL, Events: texts(want.Events), Description: want.Description,
		Status: status, DisabledReason: reason,
	})
	if err != nil {
		return row, err
	}
	if status == StatusDisabled {
		if err := cancelSome(ctx, q, row.ID); err != nil {
			return row, err
		}
	}
	current, err := e.currentSecret(ctx, q, row.ID)
	if err != nil {
		return row, err
	}
	if current != want.Secret {
		if err := e.rotate(ctx, q, row.ID, want.Secret); err != nil {
			return row, err
		}
	}
	return changed, nil
}

// DeleteManaged removes the endpoint of a resource, as Delete does. One that is gone already is no error.
func (e *Endpoints) DeleteManaged(ctx context.Context, owner string) error {
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		row, err := q.LockManagedEndpoint(ctx, owner)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return remove(ctx, q, row.ID)
	})
	if err != nil {
		return fmt.Errorf("delete endpoint of %s: %w", owner, err)
	}
	return nil
}

// Health is how deliveries to an endpoint fare.
type Health struct {
	ID             uuid.UUID
	Status         string
	DisabledReason string
	// FailingSince is when failures began without a success since; nil while deliveries succeed.
	FailingSince *time.Time
	// LastStatus is the HTTP status of the last try; 0 when no answer came or nothing was tried.
	LastStatus    int
	LastSuccessAt *time.Time
	// DisablesAt is from when on another failure disables the endpoint; nil as in Endpoint.
	DisablesAt *time.Time
	// Backlog is how many deliveries are pending, counted up to 100,000; OldestUndelivered when the oldest was caused, nil
	// for none.
	Backlog           int64
	OldestUndelivered *time.Time
}

// Health returns the delivery health of a resource's endpoint, or *NotFoundError.
func (e *Endpoints) Health(ctx context.Context, owner string) (Health, error) {
	row, err := e.queries.HealthOfManaged(ctx, webhooksdb.HealthOfManagedParams{ManagedBy: owner, Bound: backlogBound})
	if errors.Is(err, pgx.ErrNoRows) {
		return Health{}, &NotFoundError{ID: owner}
	}
	if err != nil {
		return Health{}, fmt.Errorf("read health of %s: %w", owner, err)
	}
	health := Health{
		ID: row.ID, Status: row.Status, DisabledReason: row.DisabledReason, FailingSince: row.FailingSince,
		LastStatus: statusOf(row.LastStatus), LastSuccessAt: row.LastSuccessAt,
		DisablesAt: disablesAt(row.Status, row.FailingSince), Backlog: row.Backlog,
	}
	if row.Backlog > 0 {
		health.OldestUndelivered = &row.Oldest
	}
	return health, nil
}
