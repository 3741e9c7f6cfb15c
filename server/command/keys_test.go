package command

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
)

type installation struct {
	pool  *pgxpool.Pool
	flags []string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	url := testkit.DatabaseURL(t) + connectTimeout()
	pool := testkit.Open(t, url)
	return &installation{pool: pool, flags: []string{"--database-url", url}}
}

func (i *installation) execute(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(append(args, "-o", "json"), i.flags...)
	if code := patient().Execute(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
	}
	var printed map[string]any
	testkit.Decode(t, stdout.Bytes(), &printed)
	return printed
}

func TestAnAccountWithABlankAtTheEndOfItsNameIsRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	for _, args := range [][]string{
		{"keys", "create", "--account", "acme "},
		{"keys", "list", "--account", "acme\u00a0"},
		{"keys", "list", "-o", "json", "--account", "acme\u00a0"},
	} {
		var stdout, stderr bytes.Buffer
		code := patient().Execute(append(args, i.flags...), strings.NewReader(""), &stdout, &stderr)
		if code == 0 || !strings.Contains(stderr.String(), "account: must not begin or end with a blank") || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
	if count := testkit.Get[int](t, i.pool, "SELECT count(*) FROM accounts"); count != 0 {
		t.Errorf("%d accounts", count)
	}
}

func TestKeyCommandsAreRecordedAsAnAdministrators(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	first, _ := i.execute(t, "keys", "create", "--account", "acme", "--name", "ci")["key_prefix"].(string)
	i.execute(t, "keys", "tier", first, "default")
	i.execute(t, "keys", "list")
	i.execute(t, "keys", "revoke", first)

	var actions []string
	var action, account, kind, actor, target, request string
	var nowhere bool
	testkit.ForEach(t, i.pool, []any{&action, &account, &kind, &actor, &target, &nowhere, &request}, func() {
		actions = append(actions, action)
		user, host, whole := strings.Cut(actor, "@")
		if account != "acme" || kind != "administrator" || target != first || !nowhere || request != "" || !whole || user == "" || host == "" {
			t.Errorf("%s by %s %q on %s's %s, address NULL %v, request %q", action, kind, actor, account, target, nowhere, request)
		}
	}, `SELECT l.action, a.name, l.actor_kind, l.actor, l.target, l.address IS NULL, l.request_id
		FROM audit_log l JOIN accounts a ON a.id = l.account_id ORDER BY l.id`)
	if want := []string{"key.create", "key.set_tier", "key.revoke"}; !reflect.DeepEqual(actions, want) {
		t.Errorf("recorded %v, want %v", actions, want)
	}
}
