package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"examprep.dev/hack/dev/servers"
)

const (
	// module is the prefix of this module's packages.
	module = "examprep.dev/"
	// Packages that tests depend on if they need an API server, and test programs that start one themselves.
	clusterPackages = module + "controllers/clustertest"
	binariesTests   = module + "hack/dev/controlplane.test"
)

// needs are what a command uses besides PostgreSQL and Redis.
type needs struct {
	cluster  bool // an API server
	binaries bool // programs to start an API server with
	npm      bool // the packages of hack/npm
	compiler bool // a C compiler, for the race detector
}

// programs returns what must be installed.
func (n needs) programs() []servers.Need {
	programs := []servers.Need{servers.SSHKeygen(), servers.OpenSSL(), servers.Curl()} // tests run them as users do
	if os.Getenv(testDatabase) == "" {
		programs = append(programs, servers.Postgres())
	}
	if os.Getenv(testRedis) == "" {
		programs = append(programs, servers.Redis())
	}
	if n.compiler {
		programs = append(programs, servers.Compiler())
	}
	return programs
}

// needsOf finds out what a command needs from the packages that it names. A command that names none, or packages that go
// list does not find, needs everything. A command for another module (go -C) needs an API server, and no packages of
// hack/npm.
func needsOf(ctx context.Context, root string, command []string) needs {
	race := slices.Contains(command, "-race")
	if slices.Contains(command, "-C") {
		return needs{cluster: true, compiler: race}
	}
	isPattern := func(arg string) bool {
		return arg == "." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, module)
	}
	patterns := slices.DeleteFunc(slices.Clone(command), func(arg string) bool { return !isPattern(arg) })
	if len(patterns) == 0 {
		return needs{cluster: true, npm: true, compiler: race}
	}
	n := needsOfPackages(ctx, root, patterns)
	n.compiler = race
	return n
}

func needsOfPackages(ctx context.Context, root string, patterns []string) needs {
	const format = "{{.ImportPath}}\t{{.DepOnly}}\t{{.Dir}}"
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-test", "-deps", "-f", format, "--"}, patterns...)...)
	list.Dir = root
	listed, err := list.Output()
	if err != nil {
		return needs{cluster: true, npm: true} // the command will say what is wrong
	}
	var n needs
	for line := range strings.Lines(string(listed)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		path, _, _ := strings.Cut(fields[0], " ") // before [the test that it is compiled for]
		n.cluster = n.cluster || path == clusterPackages
		n.binaries = n.binaries || path == binariesTests
		n.npm = n.npm || len(fields) == 3 && fields[1] == "false" && testsWithNPM(fields[2])
	}
	return n
}

// testsWithNPM reports whether the tests of a package contain the name of the variable.
func testsWithNPM(dir string) bool {
	tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // a name that makes the pattern malformed has no packages
	return slices.ContainsFunc(tests, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), testNPM)
	})
}

// installDeps installs the Debian packages that a target of the Makefile needs: dev, test, short (make test-short), lint,
// bench, sheets or pgbouncer. It prints their names first, and prints nothing if all are installed.
func installDeps(ctx context.Context, target string, c *console) error {
	var programs []servers.Need
	unless := func(variable string, need servers.Need) {
		if os.Getenv(variable) == "" {
			programs = append(programs, need)
		}
	}
	switch target {
	case "dev":
		unless("DATABASE_URL", servers.Postgres())
		unless("REDIS_URL", servers.Redis())
	case "bench":
		programs = []servers.Need{servers.Postgres(), servers.Redis(), servers.NginxLua()}
	case "sheets":
		programs = append(needs{}.programs(), servers.LibreOffice())
	case "pgbouncer":
		programs = append(needs{}.programs(), servers.PgBouncer())
	case "lint":
		programs = []servers.Need{servers.NPM()}
	case "short":
		programs = needs{}.programs()
	default:
		programs = append(needs{compiler: true}.programs(), servers.NPM(), servers.Chromium())
	}
	return servers.Install(ctx, c, programs...)
}
