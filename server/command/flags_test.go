package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// refused runs a command line that must be refused as called wrongly, with such a text in its message.
func refused(t *testing.T, text string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := patient().Execute(args, strings.NewReader(""), &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), text) {
		t.Errorf("%v: exit code %d, %s; want 2 and %q", args, code, stderr.String(), text)
	}
}

// TestEachCommandRefusesWrongFormatsAndNegativeTimesFirst gives no command what else it requires.
func TestEachCommandRefusesWrongFormatsAndNegativeTimesFirst(t *testing.T) {
	t.Parallel()
	formats, times := 0, 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			switch {
			case flag.Name == "output":
				formats++
				refused(t, "neither text nor json", append(path, "--output=yaml")...)
			case flag.Value.Type() == "duration":
				times++
				refused(t, "is negative", append(path, "--"+flag.Name+"=-1h")...)
			}
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newRoot(patient()))
	if formats < 4 || times < 4 {
		t.Errorf("%d commands have formats, and there are %d times", formats, times)
	}
}

func TestAKeyCommandThatIsCalledWronglyChangesNothing(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	prefix, _ := i.execute(t, "keys", "create", "--account", "acme")["key_prefix"].(string)
	for _, args := range [][]string{
		{"create", "--account", "lost", "-o", "yaml"},
		{"create", "--account", "lost", "--expires-in=-1h"},
		{"revoke", prefix, "-o", "yaml"},
		{"tier", prefix, "default", "-o", "yaml"},
	} {
		refused(t, "", append(append([]string{"keys"}, args...), i.flags...)...)
	}
	check.Equal(t, testkit.Get[int](t, i.pool, "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL AND tier IS NULL"), 1, "keys as before")
	check.Equal(t, testkit.Get[int](t, i.pool, "SELECT count(*) FROM api_keys"), 1, "keys")
}
