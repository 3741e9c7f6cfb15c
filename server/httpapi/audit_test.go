package httpapi_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
)

// audited is what the audit table says of one action.
type audited struct {
	account                                               uuid.UUID
	kind, actor, action, target, address, request, detail string
}

func (a *api) audited() []audited {
	a.t.Helper()
	var list []audited
	var r audited
	testkit.ForEach(a.t, a.Pool, []any{&r.account, &r.kind, &r.actor, &r.action, &r.target, &r.address, &r.request, &r.detail}, func() {
		list = append(list, r)
	}, `SELECT account_id, actor_kind, actor, action, target, coalesce(host(address), ''), request_id, detail::text FROM audit_log ORDER BY id`)
	return list
}

// actions are the developer operations that change something: what is recorded of each, and the field of path or answer
// that is its target. An operation that is new must be entered here, and recorded.
var actions = map[string]struct{ action, target, body string }{
	"createKey":                {"key.create", "key_prefix", `{"name":"ci"}`},
	"revokeKey":                {"key.revoke", "key_prefix", ""},
	"rotateKey":                {"key.rotate", "key_prefix", `{"overlap_seconds":60}`},
	"createWebhook":            {"webhook.create", "id", newHook},
	"updateWebhook":            {"webhook.update", "id", `{"description":"write to ada@example.org"}`},
	"deleteWebhook":            {"webhook.delete", "id", ""},
	"rotateWebhookSecret":      {"webhook.rotate_secret", "id", ""},
	"testWebhook":              {"webhook.test", "id", ""},
	"redeliverWebhookDelivery": {"webhook.redeliver", "id", ""},
	"recoverWebhook":           {"webhook.recover", "id", bodyFor(http.MethodPost)},
	"deleteSession":            {"session.end", "", ""},
}

// newProxiedConsole is a console behind a proxy that it trusts.
func newProxiedConsole(t *testing.T) *console {
	t.Helper()
	trusted := httpapi.Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return newConsoleOf(t, apitest.Options{Config: trusted}, func(*apitest.API, *developer.Deps) {})
}

// trace is a request's id and the addresses that its proxies saw; the last is the client's, what stands before it the
// client made up.
func trace(id string) http.Header {
	return http.Header{"X-Request-Id": {id}, "X-Forwarded-For": {"198.51.100.1, 203.0.113.9"}}
}

func TestEveryActionOfADeveloperIsRecordedOnce(t *testing.T) {
	t.Parallel()
	c := newProxiedConsole(t)
	for _, r := range c.developerRoutes() {
		if r.Method == http.MethodGet {
			continue
		}
		t.Run(r.Operation, func(t *testing.T) {
			want, known := actions[r.Operation]
			if !known {
				t.Fatalf("%s %s is new: enter what is recorded of it", r.Method, r.Path)
			}
			ada := c.signedIn("ada")
			account, cookie := c.account(ada), ada.cookie(sessionCookie)
			values := ada.belongings()
			before := c.audited()
			ada.header = trace("trace-" + r.Operation)
			status, _, answer := ada.do(r.Method, fill(t, r.Path, values), want.body)
			if status < 200 || status > 299 {
				t.Fatalf("%d %v", status, answer)
			}
			added := c.audited()[len(before):]
			if len(added) != 1 {
				t.Fatalf("recorded %v", added)
			}
			target := values[want.target]
			if strings.HasPrefix(r.Operation, "create") {
				target = textOf(answer, want.target)
			}
			got := added[0]
			detail := got.detail
			got.detail = ""
			if expected := (audited{
				account: account, kind: "developer", actor: c.provider.Issuer() + "#ada", action: want.action, target: target,
				address: "203.0.113.9", request: "trace-" + r.Operation,
			}); got != expected {
				t.Errorf("recorded %+v\nwant %+v", got, expected)
			}
			for _, secret := range []string{textOf(answer, "key"), textOf(answer, "secret"), cookie, "ada@example.org", "/hook"} {
				if secret != "" && strings.Contains(detail, secret) {
					t.Errorf("the record tells a secret: %s", detail)
				}
			}
		})
	}
}

func TestReadingAndWhatIsRefusedAreNotRecorded(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	adas := ada.belongings()
	before := len(c.audited())
	for _, r := range c.developerRoutes() {
		path := fill(t, r.Path, adas)
		if r.Method == http.MethodGet {
			ada.do(r.Method, path, "")
			continue
		}
		stranger := newBrowser(t, ada.origin, http.Header{"Sec-Fetch-Site": {"cross-site"}}, ada.Jar, nil)
		stranger.do(r.Method, path, bodyFor(r.Method))
		c.open().do(r.Method, path, bodyFor(r.Method))
		if path != r.Path {
			bob.do(r.Method, path, bodyFor(r.Method))
		}
	}
	ada.do(http.MethodPost, "/v1/developer/keys", `{"name":7}`)
	ada.do(http.MethodPost, "/v1/developer/webhooks", `{"url":"http://plain.example","events":["mock_attempt.scored"]}`)
	ada.do(http.MethodDelete, "/v1/developer/session?everywhere=perhaps", "")
	c.open().do(http.MethodGet, "/v1/developer/callback?state=forged&code=forged", "")
	if added := c.audited()[before:]; len(added) != 0 {
		t.Errorf("recorded %+v", added)
	}
}

func TestSigningInAndOutIsRecorded(t *testing.T) {
	t.Parallel()
	c := newProxiedConsole(t)
	ada := c.open()
	ada.header = trace("in")
	ada.signInAt(c.provider, "ada")
	ada.header = trace("out")
	account := c.account(ada)
	if status, _, answer := ada.do(http.MethodDelete, "/v1/developer/session?everywhere=true", ""); status != http.StatusNoContent {
		t.Fatalf("sign-out everywhere: %d %v", status, answer)
	}
	actor := c.provider.Issuer() + "#ada"
	want := []audited{
		{account, "developer", actor, "session.begin", "", "203.0.113.9", "in", "{}"},
		{account, "developer", actor, "session.end_all", "", "203.0.113.9", "out", "{}"},
	}
	got := c.audited()
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("recorded %+v\nwant %+v", got, want)
	}
}

func TestWhoseSignOutCannotBeRecordedStaysSignedIn(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	restore := testkit.CutOff(t, c.Pool)
	for _, query := range []string{"", "?everywhere=true"} {
		if status, header, answer := ada.do(http.MethodDelete, "/v1/developer/session"+query, ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("sign-out%s without Postgres: %d %v", query, status, answer)
		}
	}
	restore()
	ada.expect(http.StatusOK, http.MethodGet, "/v1/developer/session", "", "after it")
}
