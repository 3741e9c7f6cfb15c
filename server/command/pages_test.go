package command

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// codeLines returns the README's indented lines, without comments.
func codeLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if code, indented := strings.CutPrefix(line, "    "); indented {
			code, _, _ = strings.Cut(code, " #")
			lines = append(lines, strings.TrimSpace(code))
		}
	}
	return lines
}

func TestTheReadmesCommandLinesAreOurs(t *testing.T) {
	seen := 0
	for _, line := range codeLines(t) {
		line, _, _ = strings.Cut(line, " | ")
		line, _, _ = strings.Cut(line, " > ")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "examprep" {
			continue
		}
		seen++
		cmd, rest, err := newRoot().Find(words[1:])
		if err != nil || !cmd.Runnable() || cmd.Name() == "examprep" {
			t.Errorf("%q is no command: %v", line, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if seen < 6 {
		t.Errorf("%d command lines found; the README's form has changed", seen)
	}
}

func TestTheReadmesTargetsAreInTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?m)(?:^ {4}|`)make ([a-z0-9-]+)").FindAllStringSubmatch(string(text), -1) {
		if target := match[1]; !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
			t.Errorf("make %s is in the README but not in the Makefile", target)
		}
	}
}

func TestEveryFlagNamesItsVariable(t *testing.T) {
	for _, path := range []string{"api", "worker", "operator", "migrate"} {
		cmd, _, err := newRoot().Find([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		if flag := cmd.Flags().Lookup("environment"); !strings.HasSuffix(flag.Usage, "[EXAMPREP_ENVIRONMENT]") {
			t.Errorf("%s --environment: usage %q does not name its variable", path, flag.Usage)
		}
	}
}

func TestAVariableStandsInForItsFlagAndAMistakeInItIsNamed(t *testing.T) {
	t.Setenv("EXAMPREP_SHUTDOWN_GRACE", "soon")
	var errors strings.Builder
	if code := Execute([]string{"worker"}, strings.NewReader(""), &errors, &errors); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if !strings.Contains(errors.String(), "EXAMPREP_SHUTDOWN_GRACE") {
		t.Errorf("%q does not name the variable", errors.String())
	}
	t.Setenv("EXAMPREP_SHUTDOWN_GRACE", "")
	t.Setenv("EXAMPREP_ENVIRONMENT", "staging")
	errors.Reset()
	if code := Execute([]string{"worker"}, strings.NewReader(""), &errors, &errors); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if !strings.Contains(errors.String(), `"staging" is neither production nor sandbox`) {
		t.Errorf("%q does not say what is wrong", errors.String())
	}
}
