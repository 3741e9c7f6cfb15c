package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// judgeByAjv has Ajv check the status, headers and body of each answer by the contract. It returns the faults.
func judgeByAjv(t *testing.T, answers map[openapitest.Pair][]openapitest.Exchange) []string {
	t.Helper()
	var lines bytes.Buffer
	out, count := json.NewEncoder(&lines), 0
	for pair, exchanges := range answers {
		for _, e := range exchanges {
			count++
			check.NoError(t, out.Encode(map[string]any{
				"operation": pair.Operation, "status": e.Status, "headers": e.Header, "body": string(e.Body),
			}))
		}
	}
	judge := node(t, filepath.Join("testdata", "judge.mjs"), testenv.Get(t, testenv.NPM), filepath.Join("..", "..", "api", "openapi", "openapi.json"))
	judge.Stdin = &lines
	said := strings.Split(strings.TrimSpace(output(t, judge)), "\n")
	faults, last := said[:len(said)-1], said[len(said)-1]
	check.Equal(t, last, fmt.Sprintf("%d answers", count), "last line of Ajv's verdict")
	return faults
}

func TestAjvFindsWhatIsWrongWithAnAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	right := a.get("/v1/exam-prep/list")
	answer := openapitest.Exchange{Status: right.status, Header: right.header, Body: []byte(right.body)}
	judge := func(change func(e *openapitest.Exchange)) string {
		changed := answer
		changed.Header = answer.Header.Clone()
		change(&changed)
		return strings.Join(judgeByAjv(t, map[openapitest.Pair][]openapitest.Exchange{{Operation: "listExams"}: {changed}}), "\n")
	}
	for name, c := range map[string]struct {
		change func(e *openapitest.Exchange)
		want   string
	}{
		"the real answer":          {func(*openapitest.Exchange) {}, ""},
		"an unknown status":        {func(e *openapitest.Exchange) { e.Status = 299 }, "listExams 299: the status is not documented"},
		"a missing header":         {func(e *openapitest.Exchange) { e.Header.Del("RateLimit-Limit") }, "listExams 200: the header ratelimit-limit is missing"},
		"a header too many":        {func(e *openapitest.Exchange) { e.Header.Set("X-More", "1") }, "listExams 200: the header X-More is not documented"},
		"a header of a wrong form": {func(e *openapitest.Exchange) { e.Header.Set("RateLimit-Limit", "-1") }, "listExams 200: Ratelimit-Limit:  must be >= 0"},
		"a body of a wrong form":   {func(e *openapitest.Exchange) { e.Body = []byte(`{"exams":{}}`) }, "listExams 200: body: /exams must be array"},
	} {
		check.Equal(t, judge(c.change), c.want, "%s: faults", name)
	}
}

// node returns a command that runs a script by the Node of hack/npm.
func node(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), filepath.Join(testenv.Get(t, testenv.NPM), "bin", "node"), append([]string{script}, args...)...)
}

// output runs a command, which must succeed, and returns what it printed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var failures bytes.Buffer
	cmd.Stderr = &failures
	cmd.WaitDelay = testkit.Patience
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(cmd.Path), err, out, failures.String())
	}
	return string(out)
}
