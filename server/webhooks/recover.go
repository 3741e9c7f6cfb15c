package webhooks

import (
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
	// MaxRecovery is how many deliveries one call of Recover makes.
	MaxRecovery = 1000
	// RecoveryWindow is how far back Recover goes, as long as deliveries are kept where nothing else is set. It does not
	// follow the workers' retention, which the API does not know: where that is shorter, what is gone is not found; where
	// it is longer, what is older is sent by Redeliver only.
	RecoveryWindow = DefaultRetention
)

// Recovery is what one call of Recover did.
type Recovery struct {
	// Deliveries is how many it made.
	Deliveries int `json:"deliveries"`
	// More says that there is more to send again: another call does it.
	More bool `json:"more"`
}

// Recover sends again, with tries of their own, the events whose deliveries to one of an account's endpoints failed or
// were cancelled since a moment, the earliest end first, MaxRecovery of them at most. An event of which another delivery
// to this endpoint is pending, or has arrived since that moment, is left out: calling twice, one after the other or at
// once, sends nothing twice. What a recovery has sent and what failed anew is sent by the next one. Body and id are the
// same as before, as with Redeliver.
//
// A moment to come, or before RecoveryWindow, is a *ValidationError; a *DisabledError says that nothing is sent to the
// endpoint, a *BusyError that another recovery of it, or a redelivery, is under way.
func (e *Endpoints) Recover(ctx context.Context, account, endpoint uuid.UUID, since time.Time) (Recovery, error) {
	var recovery Recovery
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		q := e.queries.WithTx(tx)
		if err := recoverable(ctx, q, account, endpoint, since); err != nil {
			return err
		}
		sent, err := q.SendMissedAgain(ctx, webhooksdb.SendMissedAgainParams{
			EndpointID: endpoint, AccountID: account, Since: since, Most: MaxRecovery, Page: MaxRecovery + 1,
		})
		if err != nil {
			return err
		}
		recovery = Recovery{Deliveries: int(sent.Deliveries), More: sent.Missed > MaxRecovery}
		return audit.Record(ctx, tx, audit.Entry{
			Account: account, Action: audit.WebhookRecover, Target: endpoint.String(),
			Detail: map[string]any{"since": since.UTC(), "deliveries": recovery.Deliveries, "more": recovery.More},
		})
	})
	if err != nil {
		return Recovery{}, fmt.Errorf("recover deliveries: %w", err)
	}
	if recovery.Deliveries > 0 {
		e.wake(ctx)
	}
	return recovery, nil
}

// recoverable refuses what cannot be recovered, and keeps other recoveries of the endpoint out until the transaction ends.
// The endpoint's row is not locked, as in send.
func recoverable(ctx context.Context, q *webhooksdb.Queries, account, endpoint uuid.UUID, since time.Time) error {
	row, err := q.EndpointOfAccount(ctx, webhooksdb.EndpointOfAccountParams{ID: endpoint, AccountID: account})
	if errors.Is(err, pgx.ErrNoRows) {
		return &NotFoundError{ID: endpoint.String()}
	}
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	recovery, err := q.LockRecovery(ctx, endpoint)
	switch {
	case err != nil:
		return err //nolint:wrapcheck // the caller says what it was doing
	case since.After(recovery.Now):
		return &ValidationError{Field: "since", Detail: "must not be in the future"}
	case since.Before(recovery.Now.Add(-RecoveryWindow)):
		days := int(RecoveryWindow / (24 * time.Hour))
		return &ValidationError{Field: "since", Detail: fmt.Sprintf("must be within the last %d days", days)}
	case row.Status != StatusEnabled:
		return &DisabledError{Reason: row.DisabledReason}
	case !recovery.Locked:
		return &BusyError{}
	}
	return nil
}
