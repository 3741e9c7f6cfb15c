package developer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/httpapi/endpoint"
)

// Audit is the audit log; *audit.Log implements it.
type Audit interface {
	// Page returns records of an account, the newest first, and whether there are older ones.
	Page(ctx context.Context, account uuid.UUID, action audit.Action, before uuid.NullUUID, limit int) ([]audit.Shown, bool, error)
}

const (
	defaultAuditPage = 50
	maxAuditPage     = 100
	maxAction        = 64
)

type auditHandlers struct{ log Audit }

func (h *auditHandlers) routes() []endpoint.Route {
	return roleFor(accounts.Viewer, session(fasthttp.MethodGet, "/v1/developer/audit", "listAudit", endpoint.Time, h.list))
}

type shownRecord struct {
	ID        uuid.UUID    `json:"id"`
	At        time.Time    `json:"at"`
	Actor     string       `json:"actor"`
	Action    audit.Action `json:"action"`
	Target    string       `json:"target,omitempty"`
	RequestID string       `json:"request_id,omitempty"`
}

func shownRecordOf(r audit.Shown) shownRecord {
	if r.Kind == audit.Administrator {
		r.Actor = string(audit.Administrator)
	}
	return shownRecord{r.ID, r.At, r.Actor, r.Action, r.Target, r.RequestID}
}

func (h *auditHandlers) list(ctx context.Context, r *endpoint.Request) error {
	var action string
	limit, query := defaultAuditPage, r.Query()
	query.Integer("limit", &limit, 1, maxAuditPage)
	query.Text("action", &action, 1, maxAction)
	before := readID(query, "before")
	if err := query.Check(); err != nil {
		return err
	}
	page, more, err := h.log.Page(ctx, r.Session.AccountID, audit.Action(action), before, limit)
	return r.OK(struct {
		Entries []shownRecord `json:"entries"`
		HasMore bool          `json:"has_more"`
	}{mapped(page, shownRecordOf), more}, err)
}
