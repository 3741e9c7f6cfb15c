package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/auditdb"
)

// Action is what was done.
type Action string

// The actions. The target of a key.* is the key's prefix (of key.rotate the old one's), of a webhook.* the endpoint's
// id; a session.* has none.
const (
	KeyCreate           Action = "key.create"
	KeyRotate           Action = "key.rotate"
	KeyRevoke           Action = "key.revoke"
	KeySetTier          Action = "key.set_tier"
	WebhookCreate       Action = "webhook.create"
	WebhookUpdate       Action = "webhook.update"
	WebhookDelete       Action = "webhook.delete"
	WebhookRotateSecret Action = "webhook.rotate_secret" //nolint:gosec // the name of an action
	WebhookTest         Action = "webhook.test"
	WebhookRedeliver    Action = "webhook.redeliver"
	WebhookRecover      Action = "webhook.recover"
	SessionBegin        Action = "session.begin"
	SessionEnd          Action = "session.end"
	SessionEndAll       Action = "session.end_all"
)

// Entry describes an action.
type Entry struct {
	// Account owns the things that were changed.
	Account uuid.UUID
	Action  Action
	Target  string
	// Detail has the changed values, under names of the HTTP interface and without secrets; nil for none.
	Detail map[string]any
}

// Record appends the entry under the actor of ctx; without one it does nothing. db is the transaction of the action.
func Record(ctx context.Context, db auditdb.DBTX, entry Entry) error {
	actor, known := ActorOf(ctx)
	if !known {
		return nil
	}
	if entry.Detail == nil {
		entry.Detail = map[string]any{}
	}
	detail, err := json.Marshal(entry.Detail)
	if err != nil {
		return fmt.Errorf("record %s: %w", entry.Action, err)
	}
	row := auditdb.AppendRecordParams{
		ID: uuid.Must(uuid.NewV7()), AccountID: entry.Account, ActorKind: string(actor.Kind), Actor: actor.Name,
		Action: string(entry.Action), Target: entry.Target, RequestID: actor.RequestID, Detail: detail,
	}
	if actor.Address.IsValid() {
		row.Address = &actor.Address
	}
	if err := auditdb.New(db).AppendRecord(ctx, row); err != nil {
		return fmt.Errorf("record %s: %w", entry.Action, err)
	}
	return nil
}
