package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// sheetOf writes CSV files of an exam with one paper.
func sheetOf(t *testing.T, questions string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"exams.csv":     "examKey,name\na-b,A\n",
		"papers.csv":    "examKey,paperID,title,year,publisher,sourceURL,license\na-b,a-b-2013,P,2013,p,https://example.org/,MIT\n",
		"questions.csv": "paperID,number,prompt,answerKind\n" + questions,
	} {
		testkit.WriteFile(t, filepath.Join(folder, name), []byte(text))
	}
	return folder
}

func TestImportChecksItsFlagsBeforeItWrites(t *testing.T) {
	t.Parallel()
	from := sheetOf(t, "a-b-2013,1,p,annulled\n")
	out := filepath.Join(t.TempDir(), "out")
	for want, args := range map[string][]string{
		`--format: "ods" is not known; there are jsonl, csv and xlsx`: {"--format", "ods", "--from", from},
		"--from (or EXAMPREP_FROM) is required":                       {"--format", "csv"},
		"--encoding: only csv has one":                                {"--format", "xlsx", "--from", from, "--encoding", "utf-8"},
		`--encoding: the encoding "klingon" is not known`:             {"--format", "csv", "--from", from, "--encoding", "klingon"},
		"is a folder: name the workbook":                              {"--format", "xlsx", "--from", from},
		"is a file: CSV is read from a folder":                        {"--format", "csv", "--from", filepath.Join(from, "exams.csv")},
		"--at: must be a date or an RFC 3339 time":                    {"--format", "csv", "--from", from, "--seal", "--at", "tomorrow"},
		"--by: must have at most 200 characters":                      {"--format", "csv", "--from", from, "--seal", "--by", strings.Repeat("a", 201)},
		"it is neither text nor json":                                 {"--format", "csv", "--from", from, "-o", "yaml"},
	} {
		refused(t, want, append([]string{"content", "import", "--out", out}, args...)...)
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%v: something was written: %v", args, err)
		}
	}
	refused(t, `--format: "jsonl" is not known; there are csv and xlsx`, "content", "template", "--format", "jsonl", "--out", out)
	refused(t, "--out", "content", "template", "--format", "csv")
}

func TestImportSealsWithTheDateAsItIsGiven(t *testing.T) {
	t.Parallel()
	from := sheetOf(t, "a-b-2013,1,p,annulled\n")
	out := t.TempDir()
	ran(t, 0, "content", "import", "--format", "csv", "--from", from, "--out", out, "--seal", "--by", "ann@example.org", "--at", "2026-01-31")
	files, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	check.NoError(t, err)
	check.Equal(t, len(files), 1, "files")
	check.Contains(t, string(testkit.ReadFile(t, files[0])), `at: "2026-01-31"`, "the exam")
}

func TestImportOfASheetReportsEveryProblem(t *testing.T) {
	t.Parallel()
	from := sheetOf(t, strings.Repeat("a-b-2013,0x1,p,annulled\n", 12))
	stdout, stderr := ran(t, 1, "content", "import", "--format", "csv", "--from", from, "--out", t.TempDir())
	check.Equal(t, strings.Count(stdout, ": number: must be a number"), 12, "lines of %s", stdout)
	check.Contains(t, stderr, "12 problems", "standard error")
	stdout, _ = ran(t, 1, "content", "import", "--format", "csv", "--from", from, "--out", t.TempDir(), "-o", "json")
	var report struct {
		Problems []struct {
			File   string `json:"file"`
			Field  string `json:"field"`
			Line   int    `json:"line"`
			Column int    `json:"column"`
		} `json:"problems"`
	}
	check.NoError(t, json.Unmarshal([]byte(stdout), &report))
	check.Equal(t, len(report.Problems), 12, "problems")
	if p := report.Problems[11]; p.File != filepath.Join(from, "questions.csv") || p.Field != "number" || p.Line != 13 || p.Column != 10 {
		t.Errorf("have %+v", p)
	}
}

// onTerminal runs a command with a terminal as standard error, and returns what it shows.
func onTerminal(t *testing.T, p Program, args ...string) string {
	t.Helper()
	master, terminal, err := pty.Open()
	check.NoError(t, err)
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error when the terminal is closed
		shown <- string(text)
	}()
	var out bytes.Buffer
	if code := p.Execute(args, strings.NewReader(""), &out, terminal); code != 0 {
		t.Errorf("%v: exit code %d: %s", args, code, out.String())
	}
	check.NoError(t, terminal.Close())
	text := testkit.Receive(t, shown, "the terminal is closed")
	check.NoError(t, master.Close())
	return text
}

func TestLongCommandsShowProgressOnATerminalOnly(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for n := range 2000 {
		fmt.Fprintf(&rows, "a-b-2013,%d,p,annulled\n", n+1)
	}
	from, out := sheetOf(t, rows.String()), t.TempDir()
	atOnce, never := patient(), patient()
	atOnce.ProgressAfter, never.ProgressAfter = -1, testkit.Patience
	pool := testkit.Database(t)
	database := pool.Config().ConnString()
	for step, args := range map[string][]string{
		"reading questions": {"import", "--format", "csv", "--from", from, "--out", out},
	} {
		checkShown(t, atOnce, never, step, args)
	}
	for step, args := range map[string][]string{
		"digesting": {"digest", out}, "comparing": {"diff", "--database-url", database, out}, "publishing": {"publish", "--database-url", database, out},
	} {
		checkShown(t, atOnce, never, step, args)
	}
}

func checkShown(t *testing.T, atOnce, never Program, step string, args []string) {
	t.Helper()
	args = append([]string{"content"}, args...)
	shown := onTerminal(t, atOnce, args...)
	check.Contains(t, shown, step, "the terminal")
	check.Contains(t, shown, "%", "the terminal")
	check.Equal(t, onTerminal(t, never, args...), "", "a terminal before the time")
	_, stderr := ran(t, 0, args...)
	check.Equal(t, stderr, "", "standard error that is no terminal")
}

// An interrupt ends an import that is reading, and nothing is left of it.
func TestInterruptedImportLeavesNoFile(t *testing.T) {
	t.Parallel()
	from, out := sheetOf(t, ""), filepath.Join(t.TempDir(), "out")
	pipe := filepath.Join(from, "questions.csv")
	check.NoError(t, os.Remove(pipe))
	check.NoError(t, syscall.Mkfifo(pipe, 0o600))
	command := exec.CommandContext(t.Context(), os.Args[0], "content", "import", "--format", "csv", "--from", from, "--out", out)
	command.Env = append(os.Environ(), asCommand+"=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	check.NoError(t, command.Start())
	rows, err := os.OpenFile(pipe, os.O_WRONLY, 0) // it opens when the import does
	check.NoError(t, err)
	_, err = rows.WriteString("paperID,number,prompt,answerKind\n")
	check.NoError(t, err)
	check.NoError(t, command.Process.Signal(os.Interrupt))
	for n := 1; err == nil; n++ { // until the import closes the pipe
		_, err = fmt.Fprintf(rows, "a-b-2013,%d,p,annulled\n", n)
	}
	_ = rows.Close()
	failed := command.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](failed); !ok || exit.ExitCode() != 1 {
		t.Errorf("have %v", failed)
	}
	check.Contains(t, stderr.String(), "interrupted: nothing was written", "standard error")
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}
