package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/auditdb"
)

// Log reads the audit log.
type Log struct{ queries *auditdb.Queries }

// NewLog returns the log in db.
func NewLog(db *pgxpool.Pool) *Log { return &Log{auditdb.New(db)} }

// Shown is a record as the members of its account see it.
type Shown struct {
	ID        uuid.UUID
	At        time.Time
	Kind      ActorKind
	Actor     string // the [Person] of a developer; empty for an administrator: users and hosts of the command line are not for members
	Action    Action
	Target    string
	RequestID string
}

// Page returns up to limit records of an account, the newest first: of one action, or of all if action is empty, and from before the
// record before on. more reports whether there are older ones.
func (l *Log) Page(ctx context.Context, account uuid.UUID, action Action, before uuid.NullUUID, limit int) (page []Shown, more bool, err error) {
	if !before.Valid {
		before.UUID = uuid.Max
	}
	var rows []auditdb.PageOfRecordsRow
	if action == "" {
		rows, err = l.queries.PageOfRecords(ctx, auditdb.PageOfRecordsParams{AccountID: account, Before: before.UUID, Page: int32(limit) + 1})
	} else {
		var of []auditdb.PageOfActionRow
		of, err = l.queries.PageOfAction(ctx, auditdb.PageOfActionParams{
			AccountID: account, Action: string(action), Before: before.UUID, Page: int32(limit) + 1,
		})
		for _, row := range of {
			rows = append(rows, auditdb.PageOfRecordsRow(row))
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the audit log: %w", err)
	}
	for _, row := range rows[:min(len(rows), limit)] {
		record := Shown{
			ID: row.ID, At: row.At.UTC(), Kind: ActorKind(row.ActorKind), Action: Action(row.Action), Target: row.Target, RequestID: row.RequestID,
		}
		if record.Kind == Developer {
			record.Actor = row.Actor
		}
		page = append(page, record)
	}
	return page, len(rows) > limit, nil
}
