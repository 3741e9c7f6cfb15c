package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// roleNeeded is the role that each operation needs in its account; an operation that is new must be entered here. Operations with no
// role are the person's own.
var roleNeeded = map[string]accounts.Role{
	"getSession": "", "deleteSession": "", "chooseAccount": "", "listSessions": "", "deleteSessions": "", "listAccounts": "",
	"listInvitations": "", "acceptInvitation": "", "declineInvitation": "",
	"listKeys": accounts.Viewer, "getUsage": accounts.Viewer, "listMembers": accounts.Viewer, "listAudit": accounts.Viewer,
	"getOverview": accounts.Viewer, "removeMember": accounts.Owner,
	"listWebhooks": accounts.Viewer, "getWebhook": accounts.Viewer, "listWebhookDeliveries": accounts.Viewer, "getWebhookDelivery": accounts.Viewer,
	"createKey": accounts.Developer, "revokeKey": accounts.Developer, "rotateKey": accounts.Developer,
	"createWebhook": accounts.Developer, "updateWebhook": accounts.Developer, "deleteWebhook": accounts.Developer,
	"rotateWebhookSecret": accounts.Developer, "testWebhook": accounts.Developer, "recoverWebhook": accounts.Developer,
	"redeliverWebhookDelivery": accounts.Developer,
	"inviteMember":             accounts.Owner, "updateMember": accounts.Owner,
}

// joined signs a person in as a member of the account of that name, in which the person works.
func (c *console) joined(account, subject string, role accounts.Role) *browser {
	c.test.Helper()
	admin := accounts.NewAdministration(c.Pool, time.Now)
	_, err := admin.Add(c.test.Context(), account, accounts.Person{Issuer: c.provider.Issuer(), Subject: subject}, role)
	check.NoError(c.test, err)
	return c.signedIn(subject)
}

func (c *console) setRole(account uuid.UUID, subject string, role accounts.Role) {
	c.test.Helper()
	testkit.Exec(c.test, c.Pool, "UPDATE account_members SET role = $3 WHERE account_id = $1 AND subject = $2", account, subject, role)
}

// everything returns what the database has of an account, except for when its things were used.
func (c *console) everything(account uuid.UUID) string {
	c.test.Helper()
	var all, row string
	testkit.ForEach(c.test, c.Pool, []any{&row}, func() { all += row + "\n" }, `
		SELECT to_jsonb(k)::text FROM api_keys k WHERE account_id = $1
		UNION ALL SELECT to_jsonb(w)::text FROM webhook_endpoints w WHERE account_id = $1
		UNION ALL SELECT to_jsonb(m)::text FROM account_members m WHERE account_id = $1
		UNION ALL SELECT to_jsonb(i)::text FROM account_invitations i WHERE account_id = $1
		UNION ALL SELECT to_jsonb(a)::text FROM audit_log a WHERE account_id = $1 AND action NOT LIKE 'session.%'
		ORDER BY 1`, account)
	return all
}

// TestEachOperationNeedsItsRole asks for every operation as each role, as a member that was demoted or removed while signed in, and as
// the owner of another account, with the ids of the account's things.
func TestEachOperationNeedsItsRole(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	account := c.account(ada)
	ada.make("/v1/developer/members", `{"email":"first@example.org","role":"viewer"}`)
	_, _, session := ada.do(http.MethodGet, sessionPath, "")
	name := textOf(session, "account")
	things := c.belongings(ada)
	viewer, developer, demoted, removed := c.joined(name, "viewer", accounts.Viewer), c.joined(name, "dev", accounts.Developer),
		c.joined(name, "demoted", accounts.Owner), c.joined(name, "removed", accounts.Owner)
	stranger := c.signedIn("stranger")
	demoted.expect(http.StatusOK, http.MethodGet, "/v1/developer/members", "", "before the demotion")
	removed.expect(http.StatusOK, http.MethodGet, "/v1/developer/members", "", "before the removal")
	c.setRole(account, "demoted", accounts.Viewer)
	testkit.Exec(t, c.Pool, "DELETE FROM account_members WHERE account_id = $1 AND subject = 'removed'", account)
	before := c.everything(account)
	for _, r := range c.developerRoutes() {
		needed, known := roleNeeded[r.Operation]
		if !known {
			t.Fatalf("%s %s is new: enter the role that it needs", r.Method, r.Path)
		}
		path, body := fill(t, r.Path, things), actions[r.Operation].body
		removed.expect(http.StatusUnauthorized, r.Method, path, body, "%s as a removed member", r.Operation)
		if needed == "" {
			continue
		}
		for who, b := range map[accounts.Role]*browser{accounts.Viewer: viewer, accounts.Developer: developer, "demoted": demoted} {
			has := who
			if who == "demoted" {
				has = accounts.Viewer
			}
			if !has.Covers(needed) {
				b.expect(http.StatusForbidden, r.Method, path, body, "%s as %s", r.Operation, who)
			} else if r.Method == http.MethodGet {
				b.expect(http.StatusOK, r.Method, path, body, "%s as %s", r.Operation, who)
			}
		}
		if path != r.Path {
			stranger.expect(http.StatusNotFound, r.Method, path, body, "%s as another account's owner", r.Operation)
		} else if r.Method == http.MethodGet {
			seen := stranger.send(r.Method, path, "", nil).body
			for what, id := range things {
				if strings.Contains(seen, id) {
					t.Errorf("%s shows another account's owner the %s %s: %s", r.Operation, what, id, seen)
				}
			}
		}
	}
	check.Equal(t, c.everything(account), before, "what the account has after calls that its roles forbid")
}

// TestMembersShareTheThingsOfTheirAccount: an administrator makes a key for a customer, and the customer's engineers see it.
func TestMembersShareTheThingsOfTheirAccount(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	made, err := c.Keys.CreateFor(t.Context(), "acme", keys.NewKey{Name: "by an administrator"})
	check.NoError(t, err)
	ada, bob := c.joined("acme", "ada", accounts.Owner), c.joined("acme", "bob", accounts.Developer)
	second := textOf(ada.make(keysPath, `{"name":"ada's"}`), "key_prefix")
	_, _, seen := bob.do(http.MethodGet, keysPath, "")
	prefixes := map[string]bool{}
	for _, key := range listOf(seen, "keys") {
		prefixes[textOf(key, "key_prefix")] = true
	}
	if !reflect.DeepEqual(prefixes, map[string]bool{made.Prefix: true, second: true}) {
		t.Errorf("bob sees %v", seen)
	}
	bob.expect(http.StatusNoContent, http.MethodDelete, keysPath+"/"+made.Prefix, "", "bob revokes the administrator's key")
}

// TestAnInvitedPersonDecides plays the ways from a sign-in with an invitation and no account.
func TestAnInvitedPersonDecides(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	invite := func(subject string) {
		ada.make("/v1/developer/members", fmt.Sprintf(`{"email":"%s@example.org","role":"developer"}`, subject))
	}
	_, _, session := ada.do(http.MethodGet, sessionPath, "")
	invite("bob")
	bob := c.signedIn("bob")
	status, _, undecided := bob.do(http.MethodGet, sessionPath, "")
	if status != http.StatusOK || undecided["account_id"] != nil || undecided["role"] != nil || textOf(undecided, "email") != "bob@example.org" {
		t.Fatalf("before bob decides: %d %v", status, undecided)
	}
	bob.expect(http.StatusForbidden, http.MethodGet, keysPath, "", "keys of no account")
	_, _, offers := bob.do(http.MethodGet, "/v1/developer/invitations", "")
	offer := listOf(offers, "invitations")[0]
	if offer["account"] != session["account"] || offer["role"] != "developer" || offer["inviter"] != "ada@example.org" {
		t.Errorf("bob is offered %v", offer)
	}
	_, _, joined := bob.do(http.MethodPost, "/v1/developer/invitations/"+textOf(offer, "id")+"/accept", "")
	if joined["account_id"] != session["account_id"] || joined["role"] != "developer" {
		t.Errorf("bob works as %v", joined)
	}
	bob.expect(http.StatusOK, http.MethodGet, keysPath, "", "keys of the account")
	bob.expect(http.StatusConflict, http.MethodPut, sessionPath+"/account", "{}", "an account of his own beside it")

	invite("eve")
	eve := c.signedIn("eve")
	_, _, offers = eve.do(http.MethodGet, "/v1/developer/invitations", "")
	eve.expect(http.StatusNoContent, http.MethodDelete, "/v1/developer/invitations/"+textOf(listOf(offers, "invitations")[0], "id"), "", "eve declines")
	status, _, own := eve.do(http.MethodPut, sessionPath+"/account", "{}")
	if status != http.StatusOK || own["role"] != "owner" || own["account"] != c.provider.Issuer()+"#eve" {
		t.Errorf("eve's own account: %d %v", status, own)
	}
	eve.expect(http.StatusNotFound, http.MethodPut, sessionPath+"/account", fmt.Sprintf(`{"account_id":%q}`, session["account_id"]), "ada's account")
	eve.expect(http.StatusBadRequest, http.MethodPut, sessionPath+"/account", `{"account_id":"acme"}`, "an account by its name")
}

// TestACallForAnotherAccountThanTheSessionsChangesNothing: two pages of one browser, of which one chose another account.
func TestACallForAnotherAccountThanTheSessionsChangesNothing(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	first := c.account(ada)
	things := c.belongings(ada)
	ada.expect(http.StatusOK, http.MethodPost, "/v1/developer/invitations/"+things["invitation_id"]+"/accept", "", "a second account")
	second := c.account(ada)
	if second == first {
		t.Fatal("the session did not move")
	}
	more := c.belongings(ada)
	before := c.everything(second)
	for _, r := range c.developerRoutes() {
		if roleNeeded[r.Operation] == "" {
			continue
		}
		for _, header := range []string{first.String(), "acme"} {
			got := ada.send(r.Method, fill(t, r.Path, more), actions[r.Operation].body, map[string]string{"Examprep-Account": header})
			got.expect(t, http.StatusConflict, "%s", r.Operation)
		}
	}
	check.Equal(t, c.everything(second), before, "what the account has")
	got := ada.send(http.MethodGet, keysPath, "", map[string]string{"Examprep-Account": second.String()})
	got.expect(t, http.StatusOK, "the session's account")
	ada.expect(http.StatusOK, http.MethodPut, sessionPath+"/account", fmt.Sprintf(`{"account_id":%q}`, first), "back")
	check.Equal(t, c.account(ada), first, "account of the session")
	_, _, listed := ada.do(http.MethodGet, "/v1/developer/accounts", "")
	if list := listOf(listed, "accounts"); len(list) != 2 || list[0]["account_id"] != first.String() || list[1]["account_id"] != second.String() {
		t.Errorf("accounts: %v", listed)
	}
	other := c.signedIn("ada") // works in the account that the person chose last
	check.Equal(t, c.account(other), first, "account of another session")
	_, _, sessions := other.do(http.MethodGet, sessionsPath, "")
	current := 0
	for _, session := range listOf(sessions, "sessions") {
		if own, _ := session["current"].(bool); own {
			current++
		}
	}
	if len(listOf(sessions, "sessions")) != 2 || current != 1 {
		t.Errorf("sessions: %v", sessions)
	}
}

func TestMembersAreListedWithoutTheNamesOfAdministrators(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	ada.make("/v1/developer/members", `{"email":"Bob@Example.org","role":"viewer"}`)
	_, _, session := ada.do(http.MethodGet, sessionPath, "")
	c.joined(textOf(session, "account"), "eve", accounts.Developer)
	testkit.Exec(t, c.Pool, "UPDATE account_members SET created_by = 'root@bastion' WHERE subject = 'eve'")
	_, _, listed := ada.do(http.MethodGet, "/v1/developer/members", "")
	members, invitations := listOf(listed, "members"), listOf(listed, "invitations")
	if len(members) != 2 || len(invitations) != 1 {
		t.Fatalf("got %v", listed)
	}
	person := c.provider.Issuer() + "#ada"
	for what, ok := range map[string]bool{
		"ada":        members[0]["person"] == person && members[0]["role"] == "owner" && members[0]["email"] == "ada@example.org" && members[0]["created_by"] == person,
		"eve":        members[1]["role"] == "developer" && members[1]["created_by"] == "administrator",
		"invitation": invitations[0]["email"] == "bob@example.org" && invitations[0]["role"] == "viewer" && invitations[0]["created_by"] == person,
	} {
		if !ok {
			text, _ := json.Marshal(listed)
			t.Errorf("%s: %s", what, text)
		}
	}
}

func TestActivityIsListedByActionAndPage(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	var prefixes []string
	for range 3 {
		prefixes = append(prefixes, textOf(ada.make(keysPath, `{"name":"k"}`), "key_prefix"))
	}
	ada.expect(http.StatusNoContent, http.MethodDelete, keysPath+"/"+prefixes[1], "", "revoke")
	admin := audit.WithActor(t.Context(), audit.Actor{Kind: audit.Administrator, Name: "root@bastion"})
	check.NoError(t, c.Keys.RevokeAny(admin, prefixes[0]))
	person := c.provider.Issuer() + "#ada"
	want := []string{
		"administrator key.revoke " + prefixes[0], person + " key.revoke " + prefixes[1], person + " key.create " + prefixes[2],
		person + " key.create " + prefixes[1], person + " key.create " + prefixes[0], person + " session.begin ",
	}
	list := func(query string) (entries []map[string]any, more bool) {
		t.Helper()
		status, _, page := ada.do(http.MethodGet, "/v1/developer/audit"+query, "")
		check.Equal(t, status, http.StatusOK, "status of %s", query)
		more, _ = page["has_more"].(bool)
		return listOf(page, "entries"), more
	}
	texts := func(entries []map[string]any) (all []string) {
		for _, entry := range entries {
			all = append(all, textOf(entry, "actor")+" "+textOf(entry, "action")+" "+textOf(entry, "target"))
		}
		return all
	}
	var walked []string
	for before, more := "", true; more; {
		var entries []map[string]any
		entries, more = list("?limit=2" + before)
		walked = append(walked, texts(entries)...)
		before = "&before=" + textOf(entries[len(entries)-1], "id")
	}
	check.Slices(t, walked[:len(want)], want, "activity by pages of two")
	revoked, more := list("?action=key.revoke&limit=1")
	check.Slices(t, texts(revoked), want[:1], "revocations")
	check.Equal(t, more, true, "more revocations")
	revoked, more = list("?action=key.revoke&before=" + textOf(revoked[0], "id"))
	check.Slices(t, texts(revoked), want[1:2], "older revocations")
	check.Equal(t, more, false, "more older revocations")
	if request := textOf(revoked[0], "request_id"); request == "" {
		t.Error("a person's action has no request id")
	}
	none, _ := list("?action=no.such")
	check.Equal(t, len(none), 0, "records of an unknown action")
	for _, query := range []string{"?limit=0", "?limit=101", "?action=", "?before=x", "?action=" + strings.Repeat("x", 65)} {
		ada.expect(http.StatusBadRequest, http.MethodGet, "/v1/developer/audit"+query, "", "%s", query)
	}
}

// TestAPersonThatLeavesGetsNoMoreKeys: the account that the next sign-in enters is full.
func TestAPersonThatLeavesGetsNoMoreKeys(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	testkit.Exec(t, c.Pool, "UPDATE accounts SET key_limit = 2 WHERE id = $1", c.account(ada))
	for range 2 {
		ada.make(keysPath, `{"name":"a"}`)
	}
	for range 2 {
		own := testkit.Get[uuid.UUID](t, c.Pool, "SELECT id FROM account_members WHERE subject = 'ada'")
		ada.send(http.MethodDelete, "/v1/developer/members/"+own.String(), "", nil).expect(t, http.StatusNoContent, "ada leaves")
		ada = c.signedIn("ada")
		ada.send(http.MethodPost, keysPath, `{"name":"a"}`, nil).expect(t, http.StatusConflict, "a key after the sign-in")
	}
	check.Equal(t, testkit.Get[int](t, c.Pool, "SELECT count(*) FROM api_keys WHERE name = 'a'"), 2, "keys")
}
