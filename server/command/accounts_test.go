package command

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// run returns the exit code and the output of a command.
func (i *installation) run(args ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = patient().Execute(append(args, i.flags...), strings.NewReader(""), &out, &errors)
	return code, out.String(), errors.String()
}

// objects returns a list of objects of a command's output.
func objects(printed map[string]any, field string) (list []map[string]any) {
	elements, _ := printed[field].([]any)
	for _, element := range elements {
		object, _ := element.(map[string]any)
		list = append(list, object)
	}
	return list
}

func TestAccountsAreManagedByCommands(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.execute(t, "keys", "create", "--account", "acme")
	invited := i.execute(t, "accounts", "add", "acme", "--email", "Ada@Example.org")
	if invited["state"] != "invited" || invited["email"] != "ada@example.org" || invited["role"] != "owner" || invited["expires_at"] == nil {
		t.Errorf("invited: %v", invited)
	}
	added := i.execute(t, "accounts", "add", "acme", "--subject", "https://id.example#a#b")
	if added["state"] != "member" || added["issuer"] != "https://id.example" || added["subject"] != "a#b" || added["expires_at"] != nil {
		t.Errorf("added: %v", added)
	}
	developer := i.execute(t, "accounts", "add", "acme", "--subject", "https://id.example#c", "--role", "developer")
	i.execute(t, "accounts", "limit", "acme", "7")
	account := objects(i.execute(t, "accounts", "list"), "accounts")[0]
	delete(account, "account_id")
	delete(account, "created_at")
	if want := (map[string]any{"account": "acme", "key_limit": 7.0, "members": 2.0, "invitations": 1.0}); !reflect.DeepEqual(account, want) {
		t.Errorf("listed: %v, want %v", account, want)
	}
	var seen []string
	for _, one := range objects(i.execute(t, "accounts", "members", "acme"), "members") {
		seen = append(seen, fmt.Sprint(one["state"], " ", one["role"], " ", one["subject"], one["email"]))
	}
	check.Slices(t, seen, []string{"member owner a#b<nil>", "member developer c<nil>", "invited owner <nil>ada@example.org"}, "members")
	for _, id := range []any{developer["id"], invited["id"]} {
		i.execute(t, "accounts", "remove", "acme", fmt.Sprint(id))
	}
	check.Equal(t, len(objects(i.execute(t, "accounts", "members", "acme"), "members")), 1, "members left")
	check.Equal(t, testkit.Get[string](t, i.pool, "SELECT string_agg(action || ' ' || (actor LIKE '%@%'), ', ' ORDER BY id) FROM audit_log WHERE action NOT LIKE 'key.%'"),
		"invitation.create true, member.add true, member.add true, account.limit true, member.remove true, invitation.withdraw true", "records")

	for what, want := range map[string]string{
		"accounts list":         "ACCOUNT  ID",
		"accounts members acme": "STATE",
	} {
		code, stdout, stderr := i.run(strings.Fields(what)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: %d, %q, %q", what, code, stdout, stderr)
		}
	}
}

func TestCommandsOfTheAccountsPageSucceedInThisOrder(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	const page = "../../docs/accounts.md"
	lines, inline := shownCommands(t)
	const first = "examprep keys create --account acme"
	if !slices.Contains(inline[page], first) {
		t.Fatalf("the page does not say that %q creates the account", first)
	}
	check.Equal(t, len(lines[page]), 7, "commands on the page")
	made := i.execute(t, strings.Fields(first)[1:]...)
	replacer := strings.NewReplacer("'", "", "service_12345678", fmt.Sprint(made["key_prefix"]))
	for _, line := range lines[page] {
		i.execute(t, strings.Fields(replacer.Replace(line))[1:]...)
	}
}

func TestMistakesOfAccountsCommandsAreNamed(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.execute(t, "keys", "create", "--account", "acme")
	owner := fmt.Sprint(i.execute(t, "accounts", "add", "acme", "--subject", "https://id.example#a")["id"])
	i.execute(t, "accounts", "add", "acme", "--subject", "https://id.example#b", "--role", "viewer")
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"accounts add nobody --email a@example.org":                 {1, `there is no account "nobody"`},
		"accounts add acme":                                         {2, "one of --email and --subject"},
		"accounts add acme --email a@b --subject x#y":               {2, "one of --email and --subject"},
		"accounts add acme --email example.org":                     {1, "email: must be an address"},
		"accounts add acme --subject https://id.example":            {1, "subject: must be ISSUER#SUBJECT"},
		"accounts add acme --email a@example.org --role admin":      {1, "role: must be owner, developer or viewer"},
		"accounts add acme --subject https://id.example#a":          {1, "is a member of this account already"},
		"accounts remove acme " + owner:                             {1, "would have no owner"},
		"accounts remove acme x":                                    {2, `MEMBER: "x" must be an id`},
		"accounts remove acme 00000000-0000-7000-8000-000000000000": {1, "there is no such member or invitation"},
		"accounts limit acme many":                                  {2, `the number of keys "many" must be a whole number`},
		"accounts limit acme 3000000000":                            {1, "limit: must be 0 to"},
		"accounts members nobody":                                   {1, `there is no account "nobody"`},
	} {
		fields := strings.Fields(args)
		code, stdout, stderr := i.run(fields...)
		if code != want.code || !strings.Contains(stderr, want.text) || stdout != "" {
			t.Errorf("%s: %d, %q, %q, want %d and %q", args, code, stdout, stderr, want.code, want.text)
		}
	}
}
