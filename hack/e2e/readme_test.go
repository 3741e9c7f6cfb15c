//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/testkit"
)

// readmeAnswers types what the README's "Quick start" says after `make dev`, in one shell, and finds each request answered.
// The placeholder "…" stands for the attempt that was opened before.
func readmeAnswers(t *testing.T, s *stack) {
	attempt := ""
	for _, command := range readmeCommands(t) {
		output := ""
		// A person takes longer to type the next line than a webhook to arrive; this test does not.
		eventually(t, 10*time.Second, command+" to print something", func() bool {
			output = s.shell(t, strings.ReplaceAll(command, "…", attempt))
			return strings.TrimSpace(output) != ""
		})
		if opened := regexp.MustCompile(`"attempt_id":"([^"]+)"`).FindStringSubmatch(output); opened != nil {
			attempt = opened[1]
		}
		if refusal.MatchString(output) {
			t.Errorf("%s\nanswers %q", command, output)
		}
	}
	if attempt == "" {
		t.Error("the README opens no attempt")
	}
}

// refusal is an Error as a whole; those within the HTTP contract are its examples.
var refusal = regexp.MustCompile(`(^|[^:\[,])\{"error":`)

func readmeCommands(t *testing.T) []string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join(root, "README.md"))
	_, quickStart, _ := strings.Cut(string(text), "## Quick start")
	quickStart, _, _ = strings.Cut(quickStart, "\n## ")
	quickStart = strings.ReplaceAll(quickStart, "\\\n", " ")
	var commands []string
	for line := range strings.Lines(quickStart) {
		line = strings.TrimSpace(line)
		for _, program := range []string{"curl ", ".dev/bin/kubectl ", "tail "} {
			if strings.HasPrefix(line, program) {
				commands = append(commands, line)
			}
		}
	}
	if len(commands) < 6 {
		t.Fatalf("%d commands found; the README's form has changed", len(commands))
	}
	return commands
}

// shell runs a line in the project's folder with .dev/env read, as the README says.
func (s *stack) shell(t *testing.T, line string) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-euc", ". .dev/env; "+line)
	shell.Dir = root
	output, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s%v", line, output, err)
	}
	return string(output)
}
