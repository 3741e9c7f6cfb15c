package servers

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

// quantum is the need of a program that is there once installed is true.
func quantum(installed *bool) Need {
	return Need{"quantumdb", []string{"quantumdb-server"}, func() bool { return *installed }}
}

func TestMissingProgramIsNamedWithItsPackage(t *testing.T) {
	err := Require(quantum(new(bool)))
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, part := range []string{"no quantumdb", "make deps", "apt-get install quantumdb-server"} {
		check.Contains(t, err.Error(), part, "error")
	}
}

// TestInstallRunsAptGetWithTheRightsThatItHas has the machines on which Install can find itself.
func TestInstallRunsAptGetWithTheRightsThatItHas(t *testing.T) {
	broken := errors.New("exit status 100")
	for name, c := range map[string]struct {
		programs []string // that the machine has
		root     bool
		fails    error
		brings   bool // the program
		command  string
		want     string // in the error; empty: none
	}{
		"as root":              {programs: []string{"apt-get"}, root: true, brings: true, command: "sh -s -- quantumdb-server"},
		"as a user with sudo":  {programs: []string{"apt-get", "sudo"}, brings: true, command: "sudo -n sh -s -- quantumdb-server"},
		"without apt-get":      {programs: []string{"sudo"}, root: true, want: "there is no apt-get"},
		"as a user":            {programs: []string{"apt-get"}, want: "neither root nor sudo"},
		"apt-get fails":        {programs: []string{"apt-get"}, root: true, fails: broken, command: "sh -s -- quantumdb-server", want: "apt-get: exit status 100\nE: no such package"},
		"apt-get brings other": {programs: []string{"apt-get"}, root: true, command: "sh -s -- quantumdb-server", want: "quantumdb is not found after installing quantumdb-server"},
	} {
		t.Run(name, func(t *testing.T) {
			var command string
			var installed bool
			look := func(program string) string {
				if slices.Contains(c.programs, program) {
					return "/usr/bin/" + program
				}
				return ""
			}
			m := machine{look, c.root, func(_ context.Context, args []string) (string, error) {
				command, installed = strings.Join(args, " "), c.brings
				return "E: no such package", c.fails
			}}
			err := m.install(t.Context(), io.Discard, quantum(&installed))
			check.Equal(t, command, c.command, "command")
			if c.want == "" {
				check.Succeeds(t, err, "install")
				return
			}
			missing, ok := errors.AsType[*MissingError](err)
			if !ok || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "apt-get install quantumdb-server") {
				t.Errorf("got %v, want a MissingError with %q", err, c.want)
			}
			if ok && c.fails != nil && !errors.Is(missing, c.fails) {
				t.Errorf("%v does not hold the reason", missing)
			}
		})
	}
}

func TestNothingIsInstalledWhenNothingIsMissing(t *testing.T) {
	there := Need{"sh", []string{"dash"}, func() bool { return true }}
	if err := Install(t.Context(), io.Discard, there, there); err != nil {
		t.Error(err)
	}
}
