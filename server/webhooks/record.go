package webhooks

import (
	"net/url"
	"slices"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/webhooksdb"
)

// registration is the record of an endpoint's creation.
func registration(e Endpoint) audit.Entry {
	return audit.Entry{
		Account: e.AccountID.UUID, Action: audit.WebhookCreate, Target: e.ID.String(),
		Detail: map[string]any{"host": hostOf(e.URL), "events": e.Events},
	}
}

// update is the record of a change: which fields became different, and what of them is no secret.
func update(row webhooksdb.WebhookEndpoint, want webhooksdb.ChangeEndpointParams) audit.Entry {
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

// removal is the record of an endpoint's end.
func removal(row webhooksdb.WebhookEndpoint) audit.Entry {
	return audit.Entry{Action: audit.WebhookDelete, Detail: map[string]any{"host": hostOf(row.Url)}}
}

// hostOf is what of a receiver's URL is no secret: tokens stand in paths and queries.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}
