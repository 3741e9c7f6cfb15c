package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// developerRoutes are the operations of a signed-in person, from the table that the server routes by.
func (c *console) developerRoutes() []httpapi.Route {
	var routes []httpapi.Route
	for _, r := range httpapi.Routes(c.Deps) {
		signIn := r.Operation == "beginSignIn" || r.Operation == "completeSignIn"
		if strings.HasPrefix(r.Path, "/v1/developer/") && !signIn {
			routes = append(routes, r)
		}
	}
	return routes
}

var parameter = regexp.MustCompile(`\{[a-z_]+\}`)

// fill puts values in the place of a path's parameters. A parameter without one fails the test: it is a new one.
func fill(t *testing.T, path string, values map[string]string) string {
	t.Helper()
	return parameter.ReplaceAllStringFunc(path, func(name string) string {
		value, known := values[strings.Trim(name, "{}")]
		if !known {
			t.Fatalf("%s: give this test a value for %s", path, name)
		}
		return value
	})
}

// bodyFor returns a body that suffices for most operations. Operations ignore the fields of others.
func bodyFor(method string) string {
	if method == http.MethodPost || method == http.MethodPatch {
		return fmt.Sprintf(`{"since":%q,"role":"viewer"}`, time.Now().Add(-time.Hour).Format(time.RFC3339))
	}
	return ""
}

// belongings makes one of everything that has an id, and returns the ids by the names that paths have for them. The person of the
// invitation is the browser's, and its account another one.
func (c *console) belongings(b *browser) map[string]string {
	b.t.Helper()
	key := textOf(b.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	hook := textOf(b.make("/v1/developer/webhooks", newHook), "id")
	status, _, started := b.do(http.MethodPost, "/v1/developer/webhooks/"+hook+"/test", "")
	if status != http.StatusAccepted {
		b.t.Fatalf("test: %d %v", status, started)
	}
	_, _, session := b.do(http.MethodGet, sessionPath, "")
	admin, other := accounts.NewAdministration(c.Pool, time.Now), uuid.NewString()
	colleague, err := admin.Add(b.t.Context(), textOf(session, "account"), accounts.Person{Issuer: c.provider.Issuer(), Subject: other}, accounts.Developer)
	check.NoError(b.t, err)
	account, err := admin.Ensure(b.t.Context(), other)
	check.NoError(b.t, err)
	invited, err := admin.Invite(b.t.Context(), other, textOf(session, "email"), accounts.Owner)
	check.NoError(b.t, err)
	return map[string]string{
		"key_prefix": key, "id": hook, "delivery_id": textOf(started, "delivery_id"), "member_id": colleague.ID.String(),
		"invitation_id": invited.ID.String(), "other_account": account.String(),
	}
}

func (b *browser) holdings(hook string) []map[string]any {
	b.t.Helper()
	var all []map[string]any
	for _, path := range []string{"/keys", "/members", "/invitations", "/webhooks", "/webhooks/" + hook, "/webhooks/" + hook + "/deliveries"} {
		_, _, body := b.do(http.MethodGet, "/v1/developer"+path, "")
		all = append(all, body)
	}
	return all
}

func TestWhatIsNotOnesOwnIsNotThere(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	adas := c.belongings(ada)
	before := ada.holdings(adas["id"])
	unknown := map[string]string{
		"key_prefix": "service_00000000", "id": uuid.NewString(), "delivery_id": uuid.NewString(), "member_id": uuid.NewString(),
		"invitation_id": uuid.NewString(),
	}
	named := 0
	for _, r := range c.developerRoutes() {
		names := parameter.FindAllString(r.Path, -1)
		if len(names) == 0 {
			continue
		}
		named++
		bobs := c.belongings(bob)
		ask := func(what string, values map[string]string) {
			status, _, answer := bob.do(r.Method, fill(t, r.Path, values), bodyFor(r.Method))
			if status != http.StatusNotFound || answer["error"] != "not_found" {
				t.Errorf("%s %s, %s: %d %v, want 404", r.Method, r.Path, what, status, answer)
			}
		}
		ask("another's", adas)
		ask("unknown", unknown)
		for _, name := range names {
			name = strings.Trim(name, "{}")
			for what, value := range map[string]string{
				"another's": adas[name], "unknown": unknown[name],
				"a word": "x", "a space": "%20", "U+0000": "%00", "half of a character": "%c3", "no UTF-8": "%ff%fe",
				"far too long": strings.Repeat("0", 6000), "a number": strings.Repeat("9", 40),
				"a slash after it": bobs[name] + "%2F", "a broken escape": "%zz", "half an escape": "%4",
				"escaped twice": strings.ReplaceAll(escaped(bobs[name]), "%", "%25"), "in braces": "%7B" + bobs[name] + "%7D", "a URN": "urn:uuid:" + bobs[name],
				"run together": strings.NewReplacer("-", "", "_", "").Replace(bobs[name]), "a space after it": bobs[name] + "%20", "the nil UUID": uuid.Nil.String(),
			} {
				values := maps.Clone(bobs)
				values[name] = value
				ask(what+" for "+name, values)
			}
		}
		if status, _, answer := bob.do(r.Method, fill(t, r.Path, bobs), bodyFor(r.Method)); status < 200 || status > 299 {
			t.Errorf("%s %s, one's own: %d %v", r.Method, r.Path, status, answer)
		}
	}
	if named < 9 {
		t.Errorf("only %d operations have an id", named)
	}
	if after := ada.holdings(adas["id"]); !reflect.DeepEqual(after, before) {
		t.Errorf("ada had %v, and has %v", before, after)
	}
}

// escaped writes the first character of a value by its code.
func escaped(value string) string {
	const digits = "0123456789ABCDEF"
	return "%" + string(digits[value[0]>>4]) + string(digits[value[0]&15]) + value[1:]
}

func TestAnIDIsTheSameHoweverItIsEscaped(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	for _, r := range c.developerRoutes() {
		if !parameter.MatchString(r.Path) {
			continue
		}
		values := c.belongings(ada)
		for name, value := range values {
			values[name] = escaped(value)
			if name != "key_prefix" {
				values[name] = escaped(strings.ToUpper(value))
			}
		}
		if status, _, answer := ada.do(r.Method, fill(t, r.Path, values), bodyFor(r.Method)); status < 200 || status > 299 {
			t.Errorf("%s %s: %d %v", r.Method, r.Path, status, answer)
		}
	}
}

func TestEveryChangeFromAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	adas := c.belongings(ada)
	before := ada.holdings(adas["id"])
	changes := 0
	for _, r := range c.developerRoutes() {
		path := fill(t, r.Path, adas)
		if status, header, answer := c.open().do(r.Method, path, bodyFor(r.Method)); status != http.StatusUnauthorized ||
			answer["error"] != "unauthorized" || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Cookie ") {
			t.Errorf("%s %s without a session: %d %v, want 401", r.Method, r.Path, status, answer)
		}
		if r.Method == http.MethodGet {
			c.open().expect(http.StatusUnauthorized, http.MethodHead, path, "", "HEAD %s without a session", r.Path)
			ada.expect(http.StatusOK, http.MethodHead, path, "", "HEAD %s", r.Path)
			continue
		}
		changes++
		for name, header := range map[string]http.Header{
			"another site":                     {"Sec-Fetch-Site": {"cross-site"}},
			"a sibling's page":                 {"Sec-Fetch-Site": {"same-site"}},
			"a site that is no word":           {"Sec-Fetch-Site": {"SAME-ORIGIN"}},
			"another site, from its own":       {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://" + c.Address}},
			"an old browser elsewhere":         {"Origin": {"https://evil.example"}},
			"another port":                     {"Origin": {"http://127.0.0.1:1"}},
			"a name that ends alike":           {"Origin": {"http://evil" + c.Address}},
			"a sandboxed frame":                {"Origin": {"null"}},
			"no origin":                        {"Origin": {"://"}},
			"its own, in the place of a user":  {"Origin": {"http://" + c.Address + "@evil.example"}},
			"its own, behind the name of none": {"Origin": {c.Address}},
		} {
			stranger := newBrowser(t, ada.origin, header, ada.Jar, nil)
			if status, _, answer := stranger.do(r.Method, path, bodyFor(r.Method)); status != http.StatusForbidden || answer["error"] != "forbidden" {
				t.Errorf("%s %s from %s: %d %v, want 403", r.Method, r.Path, name, status, answer)
			}
		}
	}
	if changes < 9 {
		t.Errorf("only %d operations change anything", changes)
	}
	if after := ada.holdings(adas["id"]); !reflect.DeepEqual(after, before) {
		t.Errorf("ada had %v, and has %v", before, after)
	}
}

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
	"deleteSessions":           {"session.end_all", "", ""},
	"inviteMember":             {"invitation.create", "id", `{"email":"new@example.org","role":"viewer"}`},
	"updateMember":             {"member.update", "member_id", `{"role":"viewer"}`},
	"removeMember":             {"member.remove", "member_id", ""},
	"acceptInvitation":         {"invitation.accept", "invitation_id", ""},
	"declineInvitation":        {"invitation.decline", "invitation_id", ""},
	"chooseAccount":            {"session.choose", "", ""},
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
			values := c.belongings(ada)
			before := c.audited()
			switch r.Operation {
			case "acceptInvitation", "declineInvitation":
				account = uuid.MustParse(values["other_account"])
			case "chooseAccount":
				want.body = fmt.Sprintf(`{"account_id":%q}`, account)
			}
			ada.header = trace("trace-" + r.Operation)
			status, _, answer := ada.do(r.Method, fill(t, r.Path, values), want.body)
			if status < 200 || status > 299 {
				t.Fatalf("%d %v", status, answer)
			}
			added := c.audited()[len(before):]
			if r.Operation == "acceptInvitation" && len(added) == 2 && added[1].action == "session.choose" {
				added = added[:1] // the session moves to the account
			}
			if len(added) != 1 {
				t.Fatalf("recorded %v", added)
			}
			target := values[want.target]
			if strings.HasPrefix(r.Operation, "create") || r.Operation == "inviteMember" {
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
			for _, secret := range []string{textOf(answer, "key"), textOf(answer, "secret"), cookie, "ada@example.org", "new@example.org", "/hook"} {
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
	adas := c.belongings(ada)
	before := len(c.audited())
	for _, r := range c.developerRoutes() {
		path := fill(t, r.Path, adas)
		if r.Method == http.MethodGet {
			ada.do(r.Method, path, "")
			continue
		}
		if r.Operation == "recoverWebhook" {
			dryRun := strings.Replace(bodyFor(r.Method), "{", `{"dry_run":true,`, 1)
			ada.expect(http.StatusOK, r.Method, path, dryRun, "a dry run")
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
	if status, _, answer := ada.do(http.MethodDelete, "/v1/developer/sessions", ""); status != http.StatusNoContent {
		t.Fatalf("sign-out everywhere: %d %v", status, answer)
	}
	actor := c.provider.Issuer() + "#ada"
	member := testkit.Get[string](t, c.Pool, "SELECT id::text FROM account_members")
	want := []audited{
		{account, "developer", actor, "account.create", member, "203.0.113.9", "in", "{}"},
		{account, "developer", actor, "session.begin", "", "203.0.113.9", "in", "{}"},
		{account, "developer", actor, "session.end_all", "", "203.0.113.9", "out", "{}"},
	}
	got := c.audited()
	if !slices.Equal(got, want) {
		t.Errorf("recorded %+v\nwant %+v", got, want)
	}
}

func TestWhoseSignOutCannotBeRecordedStaysSignedIn(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	restore := testkit.CutOff(t, c.Pool)
	for _, path := range []string{sessionPath, "/v1/developer/sessions"} {
		if status, header, answer := ada.do(http.MethodDelete, path, ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("DELETE %s without Postgres: %d %v", path, status, answer)
		}
	}
	restore()
	ada.expect(http.StatusOK, http.MethodGet, "/v1/developer/session", "", "after it")
}
