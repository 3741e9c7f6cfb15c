package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// secretOverlap is how long the old secret signs beside the new one after a rotation.
	secretOverlap = 24 * time.Hour
	// maxDescription is in characters.
	maxDescription = 500
	// MaxEndpoints is how many endpoints an account may register: each event costs a delivery for each of them.
	MaxEndpoints = 50
	// cancelChunk is how many deliveries one statement cancels: few enough that nobody waits long for it.
	cancelChunk = 2000
	// minSecret is the shortest signing secret that a resource may bring along, in bytes.
	minSecret = 24
)

// The states of an endpoint.
const (
	StatusEnabled  = "enabled"
	StatusDisabled = "disabled"
)

// Endpoint is a registered receiver. Its JSON is the interface's.
type Endpoint struct {
	ID uuid.UUID `json:"id"`
	// AccountID is whose events it gets; invalid: everyone's.
	AccountID   uuid.NullUUID `json:"-"`
	URL         string        `json:"url"`
	Events      []Kind        `json:"events"`
	Description string        `json:"description"`
	// Status is StatusEnabled or StatusDisabled; DisabledReason says why.
	Status         string `json:"status"`
	DisabledReason string `json:"disabled_reason,omitempty"`
	// FailingSince is when failures began without a success since; nil while deliveries succeed.
	FailingSince *time.Time `json:"failing_since,omitempty"`
	// DisablesAt is from when on another failure disables the endpoint, unless a delivery succeeds; nil while none fails,
	// and once it is disabled.
	DisablesAt *time.Time `json:"disables_at,omitempty"`
	// LastStatus is the HTTP status of the last try; 0 when no answer came or nothing was tried.
	LastStatus    int        `json:"last_status,omitzero"`
	LastSuccessAt *time.Time `json:"last_success_at,omitempty"`
	// ManagedBy is the cluster/namespace/name of the resource that declares it; empty for those registered over HTTP.
	ManagedBy string    `json:"managed_by,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// Registration asks for an endpoint.
type Registration struct {
	AccountID   uuid.UUID
	URL         string
	Events      []Kind
	Description string
}

// Endpoints keeps receivers and their signing secrets.
type Endpoints struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keyring *Keyring
	policy  *AddressPolicy
}

// NewEndpoints returns a store on pool. Secrets are encrypted by keyring; allowed are the ranges that URLs may name
// although they are not the public internet.
func NewEndpoints(pool *pgxpool.Pool, keyring *Keyring, allowed []netip.Prefix) *Endpoints {
	return &Endpoints{pool: pool, queries: webhooksdb.New(pool), keyring: keyring, policy: NewAddressPolicy(allowed)}
}

// Register makes an endpoint and returns its signing secret, which is shown this once. Beyond MaxEndpoints it is refused
// with a *LimitError.
func (e *Endpoints) Register(ctx context.Context, r Registration) (Endpoint, string, error) {
	if err := e.validate(r.URL, r.Events, r.Description); err != nil {
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
		if err := roomForOneMore(ctx, q, r.AccountID); err != nil {
			return err
		}
		registered.CreatedAt, err = q.InsertEndpoint(ctx, webhooksdb.InsertEndpointParams{
			ID: id, AccountID: registered.AccountID, Url: r.URL, Events: texts(r.Events), Description: r.Description,
		})
		if err != nil {
			return err
		}
		if err := e.addSecret(ctx, q, id, secret); err != nil {
			return err
		}
		return audit.Record(ctx, tx, registration(registered))
	})
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("register endpoint: %w", err)
	}
	return registered, secret, nil
}

func roomForOneMore(ctx context.Context, q *webhooksdb.Queries, account uuid.UUID) error {
	if err := q.LockAccount(ctx, account); err != nil {
		return err
	}
	count, err := q.CountEndpoints(ctx, account)
	if err != nil {
		return err
	}
	if count >= MaxEndpoints {
		return &LimitError{Most: MaxEndpoints}
	}
	return nil
}

// List returns an account's endpoints, newest first.
func (e *Endpoints) List(ctx context.Context, account uuid.UUID) ([]Endpoint, error) {
	rows, err := e.queries.EndpointsOfAccount(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("list endpoints: %w", err)
	}
	list := make([]Endpoint, len(rows))
	for i, row := range rows {
		list[i] = endpointOf(row)
	}
	return list, nil
}

// Get returns one of an account's endpoints, or *NotFoundError.
func (e *Endpoints) Get(ctx context.Context, account, id uuid.UUID) (Endpoint, error) {
	row, err := e.queries.EndpointOfAccount(ctx, webhooksdb.EndpointOfAccountParams{ID: id, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return Endpoint{}, &NotFoundError{ID: id.String()}
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint: %w", err)
	}
	return endpointOf(row), nil
}

// Change says what of an endpoint is to become different; what is nil stays. Events that are empty, not nil, are refused.
type Change struct {
	URL         *string
	Events      []Kind
	Description *string
	// Enabled turns deliveries off, which cancels what is pending, or on again, also after the service turned them off.
	// Events that happen while they are off are not delivered later. Of a backlog of thousands some may still be pending
	// when deliveries are turned on again at once; those are delivered.
	Enabled *bool
}

// reasonOwner is the disabled_reason of an endpoint that was turned off over HTTP.
const reasonOwner = "turned off by its owner"

// Update changes an endpoint and returns it as it is then. Where it is so already nothing is written.
func (e *Endpoints) Update(ctx context.Context, account, id uuid.UUID, change Change) (Endpoint, error) {
	if err := e.validateChange(change); err != nil {
		return Endpoint{}, err
	}
	var updated webhooksdb.WebhookEndpoint
	err := e.withLocked(ctx, account, id, func(q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint) (audit.Entry, error) {
		updated = row
		want := change.of(row)
		entry := update(row, want)
		if same(row, want) {
			return entry, nil
		}
		var err error
		updated, err = q.ChangeEndpoint(ctx, want)
		if err != nil || want.Status != StatusDisabled {
			return entry, err
		}
		return entry, cancelSome(ctx, q, id)
	})
	if err != nil {
		return Endpoint{}, err
	}
	return endpointOf(updated), nil
}

// same reports whether a change leaves the row as it is.
func same(row webhooksdb.WebhookEndpoint, want webhooksdb.ChangeEndpointParams) bool {
	return row.Url == want.Url && slices.Equal(row.Events, want.Events) && row.Description == want.Description &&
		row.Status == want.Status && row.DisabledReason == want.DisabledReason
}

// of applies a change to a row.
func (c Change) of(row webhooksdb.WebhookEndpoint) webhooksdb.ChangeEndpointParams {
	want := webhooksdb.ChangeEndpointParams{
		ID: row.ID, Url: row.Url, Events: row.Events, Description: row.Description,
		Status: row.Status, DisabledReason: row.DisabledReason,
	}
	if c.URL != nil {
		want.Url = *c.URL
	}
	if c.Events != nil {
		want.Events = texts(c.Events)
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

// Delete removes an endpoint. What is pending for it is cancelled: nothing is delivered once Delete has returned, but
// for a try that is on its way already.
func (e *Endpoints) Delete(ctx context.Context, account, id uuid.UUID) error {
	return e.withLocked(ctx, account, id, func(q *webhooksdb.Queries, row webhooksdb.WebhookEndpoint) (audit.Entry, error) {
		return removal(row), remove(ctx, q, id)
	})
}

// RotateSecret makes a new signing secret and returns it. The old one signs beside it for 24 hours, or until
// the next rotation.
func (e *Endpoints) RotateSecret(ctx context.Context, account, id uuid.UUID) (string, error) {
	secret := NewSecret()
	err := e.withLocked(ctx, account, id, func(q *webhooksdb.Queries, _ webhooksdb.WebhookEndpoint) (audit.Entry, error) {
		return audit.Entry{Action: audit.WebhookRotateSecret}, e.rotate(ctx, q, id, secret)
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// withLocked runs change in a transaction that holds the endpoint's row, and records there what it says it did. A
// resource's endpoint is refused.
func (e *Endpoints) withLocked(
	ctx context.Context, account, id uuid.UUID,
	change func(*webhooksdb.Queries, webhooksdb.WebhookEndpoint) (audit.Entry, error),
) error {
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		row, err := q.LockEndpointOfAccount(ctx, webhooksdb.LockEndpointOfAccountParams{ID: id, AccountID: account})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return &NotFoundError{ID: id.String()}
		case err != nil:
			return err
		case row.ManagedBy != nil:
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

// remove deletes an endpoint: a delivery row that is found later has no endpoint and is never leased.
func remove(ctx context.Context, q *webhooksdb.Queries, id uuid.UUID) error {
	if err := q.RemoveEndpoint(ctx, id); err != nil {
		return err
	}
	return cancelSome(ctx, q, id)
}

// cancelSome cancels what is pending for an endpoint that was just turned off or deleted. Of a long backlog that is a
// part, so that the transaction stays short: the rest is refused a lease when it is due, and cancelled by the worker.
func cancelSome(ctx context.Context, q *webhooksdb.Queries, id uuid.UUID) error {
	_, err := q.CancelPending(ctx, webhooksdb.CancelPendingParams{EndpointID: id, Chunk: cancelChunk})
	return err
}

func (e *Endpoints) addSecret(ctx context.Context, q *webhooksdb.Queries, endpoint uuid.UUID, secret string) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	keyID, ciphertext := e.keyring.Encrypt(endpoint, secret)
	return q.InsertSecret(ctx, webhooksdb.InsertSecretParams{
		ID: id, EndpointID: endpoint, KeyID: keyID, Ciphertext: ciphertext,
	})
}

// rotate lets the present secret run out and adds a new one; workers notice by the endpoint's updated_at. Secrets of
// earlier rotations go at once: however often one rotates, there are two signatures at most.
func (e *Endpoints) rotate(ctx context.Context, q *webhooksdb.Queries, endpoint uuid.UUID, secret string) error {
	if err := q.DropEarlierSecrets(ctx, endpoint); err != nil {
		return err
	}
	if err := q.ExpireSecrets(ctx, webhooksdb.ExpireSecretsParams{
		EndpointID: endpoint, OverlapSeconds: secretOverlap.Seconds(),
	}); err != nil {
		return err
	}
	if err := e.addSecret(ctx, q, endpoint, secret); err != nil {
		return err
	}
	return q.TouchEndpoint(ctx, endpoint)
}

func (e *Endpoints) validate(url string, events []Kind, description string) error {
	return e.validateChange(Change{URL: &url, Events: append([]Kind{}, events...), Description: &description})
}

// validateChange checks what is given. What stays as it is was good when it came: an endpoint whose URL is allowed no more
// can still be turned off.
func (e *Endpoints) validateChange(c Change) error {
	if c.URL != nil {
		if err := e.policy.checkURL(*c.URL); err != nil {
			return err
		}
	}
	if c.Events != nil {
		if err := validateEvents(c.Events); err != nil {
			return err
		}
	}
	if c.Description != nil && utf8.RuneCountInString(*c.Description) > maxDescription {
		return &ValidationError{Field: "description", Detail: fmt.Sprintf("must have at most %d characters", maxDescription)}
	}
	return nil
}

func validateEvents(events []Kind) error {
	if len(events) == 0 {
		return &ValidationError{Field: "events", Detail: "must name at least one event"}
	}
	for i, event := range events {
		field := fmt.Sprintf("events[%d]", i)
		if !slices.Contains(Kinds(), event) {
			return &ValidationError{Field: field, Detail: "must be one of " + strings.Join(texts(Kinds()), ", ")}
		}
		if slices.Contains(events[:i], event) {
			return &ValidationError{Field: field, Detail: "is given twice"}
		}
	}
	return nil
}

func texts(kinds []Kind) []string {
	list := make([]string, len(kinds))
	for i, kind := range kinds {
		list[i] = string(kind)
	}
	return list
}

func kinds(texts []string) []Kind {
	list := make([]Kind, len(texts))
	for i, text := range texts {
		list[i] = Kind(text)
	}
	return list
}

func endpointOf(row webhooksdb.WebhookEndpoint) Endpoint {
	endpoint := Endpoint{
		ID: row.ID, AccountID: row.AccountID, URL: row.Url, Description: row.Description, Status: row.Status,
		DisabledReason: row.DisabledReason, CreatedAt: row.CreatedAt, FailingSince: row.FailingSince,
		LastStatus: statusOf(row.LastStatus), LastSuccessAt: row.LastSuccessAt,
		DisablesAt: disablesAt(row.Status, row.FailingSince), Events: kinds(row.Events),
	}
	if row.ManagedBy != nil {
		endpoint.ManagedBy = *row.ManagedBy
	}
	return endpoint
}
