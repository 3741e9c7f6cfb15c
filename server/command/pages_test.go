package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"examprep.dev/server/testkit/check"
)

// shownCommands returns the command lines of this program that pages show, by page: lines of code, and code within
// sentences that begins with the program's name.
func shownCommands(t *testing.T) (lines, inline map[string][]string) {
	t.Helper()
	lines, inline = map[string][]string{}, map[string][]string{}
	span := regexp.MustCompile("`(examprep [a-z][^`]*)`")
	program := regexp.MustCompile(`^(?:.* -- )?(?:\S*/)?examprep (.+)$`)
	read := func(path string) error {
		text, err := os.ReadFile(path)
		fenced := false
		for line := range strings.Lines(string(text)) {
			fenced = fenced != strings.HasPrefix(line, "```")
			code, indented := strings.CutPrefix(line, "    ")
			if !fenced && !indented {
				for _, match := range span.FindAllStringSubmatch(line, -1) {
					inline[path] = append(inline[path], match[1])
				}
				continue
			}
			code, _, _ = strings.Cut(code, " #")
			code, _, _ = strings.Cut(code, " | ")
			code, _, _ = strings.Cut(code, " > ")
			if match := program.FindStringSubmatch(strings.TrimSpace(code)); match != nil {
				lines[path] = append(lines[path], "examprep "+match[1])
			}
		}
		return err
	}
	for _, root := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../CHANGELOG.md", "../../docs", "../../config", "../../charts/examprep"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			return read(path)
		})
		check.NoError(t, err)
	}
	return lines, inline
}

func find(line string) (*cobra.Command, error) {
	words := regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`).FindAllString(line, -1)
	for i, word := range words {
		words[i] = strings.NewReplacer("'", "", `"`, "").Replace(word)
	}
	cmd, rest, err := newRoot(patient()).Find(words[1:])
	if err != nil {
		return nil, fmt.Errorf("find the command: %w", err)
	}
	if cmd.Name() == "examprep" {
		return nil, errors.New("not a command")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, fmt.Errorf("parse its flags: %w", err)
	}
	return cmd, nil
}

func TestCommandLinesOnPagesAreValid(t *testing.T) {
	lines, inline := shownCommands(t)
	seen := 0
	for page, shown := range lines {
		for _, line := range shown {
			seen++
			cmd, err := find(line)
			if err == nil && !cmd.Runnable() {
				err = errors.New("not runnable")
			}
			if err == nil && !strings.HasSuffix(line, "…") {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			check.Succeeds(t, err, "%s: %q", page, line)
		}
	}
	if seen < 20 {
		t.Errorf("%d command lines found; the form of the pages has changed", seen)
	}
	seen = 0
	for page, shown := range inline {
		for _, line := range shown {
			seen++
			if _, err := find(line); err != nil {
				t.Errorf("%s: %q: %v", page, line, err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands within sentences found; the form of the pages has changed", seen)
	}
}

func TestEveryFlagNamesItsVariable(t *testing.T) {
	for _, path := range []string{"api", "worker", "operator", "migrate"} {
		cmd, _, err := newRoot(patient()).Find([]string{path})
		check.NoError(t, err)
		if flag := cmd.Flags().Lookup("environment"); !strings.HasSuffix(flag.Usage, "[EXAMPREP_ENVIRONMENT]") {
			t.Errorf("%s --environment: usage %q does not name its variable", path, flag.Usage)
		}
	}
}

func TestAVariableStandsInForItsFlagAndAMistakeInItIsNamed(t *testing.T) {
	t.Setenv("EXAMPREP_SHUTDOWN_GRACE", "soon")
	var errors strings.Builder
	check.Equal(t, patient().Execute([]string{"worker"}, strings.NewReader(""), &errors, &errors), 2, "exit code")
	if !strings.Contains(errors.String(), "EXAMPREP_SHUTDOWN_GRACE") {
		t.Errorf("%q does not name the variable", errors.String())
	}
	t.Setenv("EXAMPREP_SHUTDOWN_GRACE", "")
	t.Setenv("EXAMPREP_ENVIRONMENT", "staging")
	errors.Reset()
	check.Equal(t, patient().Execute([]string{"worker"}, strings.NewReader(""), &errors, &errors), 2, "exit code")
	if !strings.Contains(errors.String(), `"staging" is neither production nor sandbox`) {
		t.Errorf("%q does not say what is wrong", errors.String())
	}
}
