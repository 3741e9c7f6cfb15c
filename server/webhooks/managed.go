package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/webhooksdb"
)

// ManagedEndpoint is an endpoint as a resource of the cluster declares it.
type ManagedEndpoint struct {
	// Owner is the resource: cluster/namespace/name.
	Owner       string
	URL         string
	Events      []Kind
	Description string
	// Account owns the events that are delivered; if it is invalid, the events of all accounts are.
	Account uuid.NullUUID
	// Secret is the signing secret, at least 24 bytes.
	Secret string
	// Suspend stops deliveries; events that happen meanwhile are not delivered later.
	Suspend bool
}

const (
	// minSecret is the shortest signing secret that a resource can bring, in bytes.
	minSecret = 24
	// reasonSuspended is the disabled_reason of a suspended resource's endpoint. Only this reason ends with the suspension: an
	// endpoint that was disabled for its failures stays so until its URL changes.
	reasonSuspended = "suspended by its resource"
	// backlogLimit is the number of pending deliveries up to which Health counts.
	backlogLimit = 100_000
)

// Managed stores the endpoints that resources of the cluster declare.
type Managed struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keyring *Keyring
	policy  *AddressPolicy
}

// NewManaged returns a store on pool. keyring encrypts secrets; policy decides which addresses URLs can contain.
func NewManaged(pool *pgxpool.Pool, keyring *Keyring, policy *AddressPolicy) *Managed {
	return &Managed{pool: pool, queries: webhooksdb.New(pool), keyring: keyring, policy: policy}
}

// Apply makes the endpoint of want.Owner equal to want, and returns it. It writes nothing if they are equal. A new secret replaces
// the old one, which also signs for 24 hours. Another account gets another endpoint with an id of its own: it must see neither
// past nor pending deliveries of the former account. A mistake in want is a *ValidationError.
func (m *Managed) Apply(ctx context.Context, want ManagedEndpoint) (Endpoint, error) {
	if err := validate(m.policy, want.URL, want.Events, want.Description); err != nil {
		return Endpoint{}, err
	}
	if len(want.Secret) < minSecret {
		return Endpoint{}, &ValidationError{Field: "secret", Detail: fmt.Sprintf("must have at least %d characters", minSecret)}
	}
	var row webhooksdb.WebhookEndpoint
	err := pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) (err error) {
		q := m.queries.WithTx(tx)
		if row, err = lockOrInsert(ctx, q, want); err != nil {
			return err
		}
		if row.AccountID != want.Account { // an endpoint that was disabled for its failures stays so
			if err := remove(ctx, q, row.ID); err != nil {
				return err
			}
			row, err = insertManaged(ctx, q, row, want)
		} else {
			row, err = update(ctx, q, row, want.apply(row))
		}
		if err != nil {
			return err
		}
		return ensureSecret(ctx, q, m.keyring, row.ID, want.Secret)
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("apply endpoint of %s: %w", want.Owner, err)
	}
	return endpointOf(row), nil
}

// lockOrInsert returns the locked row of the resource's endpoint, and inserts it if there is none.
func lockOrInsert(ctx context.Context, q *webhooksdb.Queries, want ManagedEndpoint) (webhooksdb.WebhookEndpoint, error) {
	row, err := q.LockManagedEndpoint(ctx, want.Owner)
	if errors.Is(err, pgx.ErrNoRows) {
		row, err = insertManaged(ctx, q, webhooksdb.WebhookEndpoint{}, want)
	}
	if errors.Is(err, pgx.ErrNoRows) { // another process has inserted it since
		row, err = q.LockManagedEndpoint(ctx, want.Owner)
	}
	return row, err
}

// insertManaged inserts the endpoint in the place of earlier, or returns pgx.ErrNoRows if the resource has one.
func insertManaged(
	ctx context.Context, q *webhooksdb.Queries, earlier webhooksdb.WebhookEndpoint, want ManagedEndpoint,
) (webhooksdb.WebhookEndpoint, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return webhooksdb.WebhookEndpoint{}, err
	}
	status, reason := desiredStatus(earlier, want)
	return q.InsertManagedEndpoint(ctx, webhooksdb.InsertManagedEndpointParams{
		ID: id, AccountID: want.Account, Url: want.URL, Events: kindStrings(want.Events), Description: want.Description,
		Status: status, DisabledReason: reason, ManagedBy: &want.Owner,
	})
}

// apply returns the values of row as the resource declares them.
func (want ManagedEndpoint) apply(row webhooksdb.WebhookEndpoint) webhooksdb.ChangeEndpointParams {
	status, reason := desiredStatus(row, want)
	return webhooksdb.ChangeEndpointParams{
		ID: row.ID, Url: want.URL, Events: kindStrings(want.Events), Description: want.Description, Status: status, DisabledReason: reason,
	}
}

// desiredStatus returns the status of a resource's endpoint: disabled while the resource is suspended, and after too many failures
// until the URL changes.
func desiredStatus(row webhooksdb.WebhookEndpoint, want ManagedEndpoint) (status, reason string) {
	switch {
	case want.Suspend:
		return StatusDisabled, reasonSuspended
	case row.Status == StatusDisabled && row.DisabledReason != reasonSuspended && row.Url == want.URL:
		return StatusDisabled, row.DisabledReason
	default:
		return StatusEnabled, ""
	}
}

// Delete deletes the endpoint of a resource, as Endpoints.Delete does. It returns nil if the endpoint does not exist.
func (m *Managed) Delete(ctx context.Context, owner string) error {
	err := pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
		q := m.queries.WithTx(tx)
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

// Health is an endpoint with its backlog.
type Health struct {
	Endpoint
	// Backlog is the number of pending deliveries, counted up to 100,000.
	Backlog int64
	// OldestUndelivered is the creation time of the oldest pending delivery; nil if there is none.
	OldestUndelivered *time.Time
}

// Health returns the delivery health of a resource's endpoint, or *NotFoundError.
func (m *Managed) Health(ctx context.Context, owner string) (Health, error) {
	row, err := m.queries.HealthOfManaged(ctx, webhooksdb.HealthOfManagedParams{ManagedBy: owner, Bound: backlogLimit})
	if errors.Is(err, pgx.ErrNoRows) {
		return Health{}, &NotFoundError{ID: owner}
	}
	if err != nil {
		return Health{}, fmt.Errorf("read health of %s: %w", owner, err)
	}
	health := Health{Endpoint: endpointOf(row.WebhookEndpoint), Backlog: row.Backlog}
	if row.Backlog > 0 {
		health.OldestUndelivered = &row.Oldest
	}
	return health, nil
}
