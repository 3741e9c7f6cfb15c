package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func (c *contractRun) newConflicts() map[string]func() request {
	by := func(cookie, path, body string) request {
		return request{path: path, body: body, header: map[string]string{
			"Authorization": "", "Cookie": cookie, "Content-Type": "application/json",
		}}
	}
	managed := func(rest, body string) func() request {
		return func() request { return by(c.cookie, "/v1/developer/webhooks/"+c.newManagedWebhook()+rest, body) }
	}
	return map[string]func() request{
		"createKey": func() request { // of an account that has as many as it may
			cookie := c.signIn("collector")
			c.insertKeys(cookie, 1000)
			return by(cookie, "/v1/developer/keys", `{"name":"one too many"}`)
		},
		"rotateKey": func() request { // of a key that is revoked
			path := "/v1/developer/keys/" + c.newKeyPrefix(`{"name":"ci"}`)
			c.developer(c.cookie, http.MethodDelete, path, "", "")
			return by(c.cookie, path+"/rotate", "")
		},
		"chooseAccount": func() request { // a second account of one's own
			return by(c.cookie, sessionPath+"/account", `{}`)
		},
		"acceptInvitation": func() request { // of a member
			account := c.developer(c.cookie, http.MethodGet, sessionPath, "", "account")
			invited, err := accounts.NewAdministration(c.Pool, time.Now).Invite(c.t.Context(), account, "ada@example.org", accounts.Viewer)
			check.NoError(c.t, err)
			return by(c.cookie, "/v1/developer/invitations/"+invited.ID.String()+"/accept", "")
		},
		"createWebhook": func() request {
			cookie := c.signIn("subscriber")
			for range 50 {
				c.newWebhook(cookie)
			}
			return by(cookie, "/v1/developer/webhooks", bodies["createWebhook"](c.stage))
		},
		"updateWebhook":       managed("", `{"description":"changed"}`),
		"deleteWebhook":       managed("", ""),
		"rotateWebhookSecret": managed("/rotate-secret", ""),
		"testWebhook": func() request {
			return by(c.cookie, "/v1/developer/webhooks/"+c.newDisabledWebhook()+"/test", "")
		},
		"recoverWebhook": func() request {
			return by(c.cookie, "/v1/developer/webhooks/"+c.newDisabledWebhook()+"/recover", bodyFor(http.MethodPost))
		},
		"redeliverWebhookDelivery": func() request {
			hook := "/v1/developer/webhooks/" + c.newDisabledWebhook() + "/deliveries/"
			list := c.call(http.MethodGet, strings.TrimSuffix(hook, "/"), "", map[string]string{"Authorization": "", "Cookie": c.cookie})
			deliveries, _ := list.document(c.t)["deliveries"].([]any)
			if len(deliveries) == 0 {
				c.t.Fatalf("there is no delivery: %s", list.body)
			}
			first, _ := deliveries[0].(map[string]any)
			id, _ := first["id"].(string)
			return by(c.cookie, hook+id+"/redeliver", "")
		},
	}
}

func (c *contractRun) newDisabledWebhook() string {
	c.t.Helper()
	id := c.newWebhook(c.cookie)
	c.developer(c.cookie, http.MethodPost, "/v1/developer/webhooks/"+id+"/test", "", "")
	c.developer(c.cookie, http.MethodPatch, "/v1/developer/webhooks/"+id, `{"status":"disabled"}`, "")
	return id
}

// driveTheRest asks for what a good request of an operation does not show, so that each documented property is seen.
func (c *contractRun) driveTheRest() {
	c.t.Helper()
	const submit = examPath + "/mock-exams/submit"
	late, given := c.open(), c.open()
	testkit.Exec(c.t, c.Pool, `UPDATE attempts SET opened_at = opened_at - interval '3 hours', expires_at = expires_at - interval '3 hours' WHERE id = $1`, late)
	c.post(submit, `{"attempt_id":"`+late+`","answers":{"1:1":"B"}}`)
	c.post(submit, `{"attempt_id":"`+given+`","answers":{},"status":"abandoned"}`)
	c.get(examPath + "/mock-exams/history")

	expiring := c.newKeyPrefix(`{"name":"ends","expires_at":"2999-01-01T00:00:00Z"}`)
	testkit.Exec(c.t, c.Pool, `UPDATE api_keys SET revoked_at = now() WHERE prefix = $1`, expiring)
	testkit.Exec(c.t, c.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited, last_used_at)
		SELECT id, (now() AT TIME ZONE 'UTC')::date, account_id, 7, 1, now() FROM api_keys WHERE prefix = $1`, expiring)
	c.developer(c.cookie, http.MethodGet, "/v1/developer/keys", "", "")
	c.rotateUntold(c.newKeyPrefix(`{"name":"ends","expires_at":"2999-01-01T00:00:00Z"}`))

	soon := c.newKeyPrefix(`{"name":"ends soon","expires_at":"2999-01-01T00:00:00Z"}`)
	testkit.Exec(c.t, c.Pool, `UPDATE api_keys SET expires_at = now() + interval '5 days' WHERE prefix = $1`, soon)
	testkit.Exec(c.t, c.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited, last_used_at)
		SELECT id, (now() AT TIME ZONE 'UTC')::date, account_id, 7, 1, now() FROM api_keys WHERE prefix = $1`, soon)

	c.newManagedWebhook()
	testkit.Exec(c.t, c.Pool, `UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = 'for a test' WHERE id = $1`, c.newWebhook(c.cookie))
	testkit.Exec(c.t, c.Pool, `UPDATE webhook_endpoints SET failing_since = now(), last_status = 500, last_failure = 'status',
		last_success_at = now() WHERE id = $1`, c.newWebhook(c.cookie))
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks", "", "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/overview", "", "")

	c.developer(c.cookie, http.MethodGet, "/v1/developer/usage", "", "")

	c.developer(c.cookie, http.MethodPost, "/v1/developer/members", bodies["inviteMember"](c.stage), "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/members", "", "")
	c.developer(c.undecided, http.MethodGet, "/v1/developer/invitations", "", "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/audit", "", "")

	done := c.newDelivery()
	c.newDelivery()
	testkit.Exec(c.t, c.Pool, `UPDATE webhook_deliveries SET state = 'failed', attempt = 6, last_status = 500, last_failure = 'status', finished_at = now()
		WHERE id = $1`, done)
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks/"+c.hook+"/deliveries", "", "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks/"+c.hook+"/deliveries?limit=1", "", "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks", "", "")

	testkit.Exec(c.t, c.Pool, `INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, status, failure, response)
		VALUES ($1, 6, now(), 12, 500, 'status', 'broken')`, done)
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks/"+c.hook+"/deliveries/"+done, "", "")
	c.developer(c.cookie, http.MethodGet, "/v1/developer/webhooks/"+c.hook+"/deliveries/"+c.newDelivery(), "", "")
}

// silentPods never apply a change.
type silentPods struct{}

func (silentPods) Confirm(context.Context, keys.ChangeKind) error {
	return &keys.UnconfirmedError{Silent: 1}
}

func (c *contractRun) rotateUntold(prefix string) {
	c.t.Helper()
	untold := c.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
		signedIn := *deps.Developer
		signedIn.Keys = keys.NewStore(c.Pool, silentPods{})
		deps.Developer = &signedIn
	})
	got := untold.call(http.MethodPost, "/v1/developer/keys/"+prefix+"/rotate", "", map[string]string{"Authorization": "", "Cookie": c.cookie})
	if got.status != http.StatusCreated || !strings.Contains(got.body, `"old_key_revoked":false`) {
		c.t.Errorf("a rotation that is not told: %d %s", got.status, got.body)
	}
}
