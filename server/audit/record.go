package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/auditdb"
)

// Action is what was done.
type Action string

// The actions. The target of a key.* is the key's prefix (of key.rotate the old one's), of a webhook.* the endpoint's
// id, of a member.* and of account.create the member's id, of an invitation.* the invitation's id. A session.* and account.limit have
// none.
const (
	AccountCreate       Action = "account.create"
	AccountLimit        Action = "account.limit"
	MemberAdd           Action = "member.add"
	MemberUpdate        Action = "member.update"
	MemberRemove        Action = "member.remove"
	InvitationCreate    Action = "invitation.create"
	InvitationWithdraw  Action = "invitation.withdraw"
	InvitationAccept    Action = "invitation.accept"
	InvitationDecline   Action = "invitation.decline"
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
	SessionChoose       Action = "session.choose"
	SessionEnd          Action = "session.end"
	SessionEndAll       Action = "session.end_all"
)

// Entry describes an action.
type Entry struct {
	// Account owns the things that were changed. It is zero only for a session of a person who has no account yet.
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
	of := uuid.NullUUID{UUID: entry.Account, Valid: entry.Account != uuid.Nil}
	if !of.Valid && !strings.HasPrefix(string(entry.Action), "session.") {
		return fmt.Errorf("record %s: it is on no account", entry.Action)
	}
	if entry.Detail == nil {
		entry.Detail = map[string]any{}
	}
	detail, err := json.Marshal(entry.Detail)
	if err != nil {
		return fmt.Errorf("record %s: %w", entry.Action, err)
	}
	row := auditdb.AppendRecordParams{
		ID: uuid.Must(uuid.NewV7()), AccountID: of, ActorKind: string(actor.Kind), Actor: actor.Name,
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
