package command

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// onServer runs the lines of a marked block that call psql, for a role and a database of another name.
func onServer(ctx context.Context, t *testing.T, block, name string) {
	t.Helper()
	_, lines, found := strings.Cut("\n"+block, "\npsql ")
	if !found {
		t.Fatalf("no line calls psql: %s", block)
	}
	command := exec.CommandContext(ctx, "sh", "-eu", "-c", "psql "+strings.ReplaceAll(lines, "examprep", name))
	command.Env = append(os.Environ(), "ADMIN_URL="+testenv.Get(t, testenv.Database), "PASSWORD=secret")
	out, err := command.CombinedOutput()
	check.NoErrorf(t, err, "%s", out)
}

// installed is a database that the lines of docs/install.md made. docs/operations.md has those that drop it.
type installed struct {
	role, url string
	admin     *pgxpool.Pool
}

func installDatabase(t *testing.T) installed {
	t.Helper()
	server := testenv.Get(t, testenv.Database)
	d := installed{role: "installed_" + strings.ReplaceAll(uuid.NewString(), "-", ""), admin: testkit.Open(t, server)}
	onServer(t.Context(), t, markedBlocks(t, "install.md")["database"], d.role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		onServer(ctx, t, markedBlocks(t, "operations.md")["drop"], d.role)
		_, err := d.admin.Exec(ctx, "DROP ROLE "+d.role)
		check.NoError(t, err)
	})
	address, err := url.Parse(server)
	check.NoError(t, err)
	address.User, address.Path = url.UserPassword(d.role, "secret"), "/"+d.role
	address.RawQuery = "sslmode=disable"
	d.url = address.String()
	return d
}

// limit sets how many connections the role can have.
func (d installed) limit(t *testing.T, connections int) {
	t.Helper()
	testkit.Exec(t, d.admin, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", d.role, connections))
}

// connectionsOnPage returns the connections of a pod in the table of docs/install.md: by default and lowered.
func connectionsOnPage(t *testing.T, component string) (byDefault, lowered int) {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `" + component + "` \\| ([0-9]+) \\| [0-9]+ \\| [0-9]+ \\| ([0-9]+) \\|").
		FindSubmatch(testkit.ReadFile(t, "../../docs/install.md"))
	if row == nil {
		t.Fatalf("the page has no connections of %s", component)
	}
	byDefault, err := strconv.Atoi(string(row[1]))
	check.NoError(t, err)
	lowered, err = strconv.Atoi(string(row[2]))
	check.NoError(t, err)
	return byDefault, lowered
}

// listeners are an API pod's connections for LISTEN: of the directory of API keys, and of the catalogue.
const listeners = 2

// TestInstallationByThePageNeedsItsConnectionsOnly runs the processes as the role of docs/install.md.
func TestInstallationByThePageNeedsItsConnectionsOnly(t *testing.T) {
	t.Parallel()
	byDefault, lowered := connectionsOnPage(t, "api")
	check.Equal(t, byDefault, postgres.DefaultMaxConns+backgroundConns+listeners, "connections of an API pod")
	for _, component := range []string{"worker", "operator"} {
		connections, _ := connectionsOnPage(t, component)
		check.Equal(t, connections, postgres.DefaultMaxConns, "connections of %s", component)
	}
	d := installDatabase(t)
	d.limit(t, 2)
	check.NoError(t, postgres.Migrate(t.Context(), d.url, postgres.Sandbox))
	d.limit(t, -1)
	s := newEnvOn(t, d.url, cacheDatabase)
	s.Run(t, "content", "publish", "../../config/samples")
	size := lowered - backgroundConns - listeners
	s.Env = append(s.Env, "EXAMPREP_API_KEY="+s.newKey("acme"), "EXAMPREP_POOL_MAX_CONNS="+strconv.Itoa(size), "DATABASE_URL="+s.Postgres.URL+connectTimeout()+"&application_name=api")
	pod := s.start("api")
	s.Run(t, "check", "--url", "http://"+pod.Address+"/v1")
	s.newKey("other")
	opened := testkit.Get[int](t, d.admin, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1
		AND application_name IN ('api', 'examprep key directory', 'examprep catalogue listener')`, d.role)
	if opened < size+listeners || opened > lowered {
		t.Errorf("an API pod has %d connections, want at least %d and at most %d", opened, size+listeners, lowered)
	}
	s.start("worker").Stop()
	pod.Stop()
	if problem := regexp.MustCompile(`"level":"(WARN|ERROR)".*`).FindString(pod.Log.String()); problem != "" {
		t.Error(problem)
	}
}
