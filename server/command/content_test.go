package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// brokenExam has two problems that the API server does not see.
const brokenExam = `apiVersion: examprep.dev/v1alpha1
kind: ExamContent
metadata: {name: a}
spec:
  examKey: a
  name: A
  countryCode: XX
  papers:
    - paperID: aaaaaa
      title: A
      year: 2020
      provenance: {publisher: p, sourceURL: "https://example.com", license: l}
      questions:
        - {number: 1, prompt: "\frac", answer: {unmarkable: true}}
`

// ran runs a command line and checks its exit code.
func ran(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if have := patient().Execute(args, strings.NewReader(""), &out, &errs); have != code {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, have, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func TestContentCommandsPrintEveryProblemOnALine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "exam.yaml")
	testkit.WriteFile(t, file, []byte(strings.Repeat(brokenExam+"  nane: x\n---\n", 4)))
	for _, args := range [][]string{{"lint"}, {"digest"}, {"digest", "--message"}} {
		args = append(append([]string{"content"}, args...), file)
		stdout, stderr := ran(t, 1, args...)
		if lines := strings.Count(stdout, ": unknown field\n"); lines != 4 || !strings.Contains(stderr, " problems") {
			t.Errorf("%v: %d lines\n%s%s", args, lines, stdout, stderr)
		}
		stdout, _ = ran(t, 1, append(args, "-o", "json")...)
		var report struct {
			Problems []struct {
				File     string `json:"file"`
				Severity string `json:"severity"`
			} `json:"problems"`
		}
		check.NoError(t, json.Unmarshal([]byte(stdout), &report))
		if len(report.Problems) < 4 || report.Problems[0].File != file || report.Problems[0].Severity != "error" {
			t.Errorf("%v: %s", args, stdout)
		}
	}
}

func TestLintWithWarningsSucceeds(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("countryCode: XX", "scoring: {pass_mark: much}", `"\frac"`, `"2 \times 3"`).Replace(brokenExam)
	file := filepath.Join(t.TempDir(), "exam.yaml")
	testkit.WriteFile(t, file, []byte(text))
	stdout, _ := ran(t, 0, "content", "lint", file)
	check.Equal(t, strings.Count(stdout, ": warning: "), 2, "warnings in %s", stdout)
}

func TestContentDigestRefusesWrongCallsBeforeItWrites(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "exam.yaml")
	testkit.WriteFile(t, file, []byte(brokenExam))
	for _, at := range []string{"tomorrow", "2026-01-31T10:00:00,5Z", "2026-01-31T10:00:00.00000000000000000000005Z"} {
		refused(t, "--at: must be a date", "content", "digest", "--write", "--by", "Ann", "--at", at, file)
	}
	refused(t, "--by: must have", "content", "digest", "--write", "--by", strings.Repeat("a", 201), "--at", "2026-01-31", file)
	refused(t, "none of the others", "content", "digest", "--write", "--message", file)
	refused(t, "none of the others", "content", "digest", "--message", "--signature", "-", file)
	refused(t, "--by: must have", "content", "import", "--from", t.TempDir(), "--out", t.TempDir(), "--seal", "--by", strings.Repeat("a", 201))
	check.Equal(t, string(testkit.ReadFile(t, file)), brokenExam, "the file")
}

func TestContentPublishReportsAListAndWarnsInProduction(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "exam.yaml")
	testkit.WriteFile(t, file, []byte(brokenExam))
	for environment, warned := range map[string]bool{"production": true, "sandbox": false} {
		pool := testkit.Database(t)
		testkit.Exec(t, pool, fmt.Sprintf("UPDATE installation SET environment = '%s'", environment))
		stdout, stderr := ran(t, 1, "content", "publish", "-o", "json", "--database-url", pool.Config().ConnString(), file)
		var report struct {
			Exams []any `json:"exams"`
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Exams == nil {
			t.Errorf("%s: %v, %s", environment, err, stdout)
		}
		check.Equal(t, strings.Contains(stderr, "--trusted-verifiers"), warned, "%s: %s", environment, stderr)
	}
}
