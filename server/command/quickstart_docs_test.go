package command

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// markedBlocks returns the blocks of a page in docs that follow a comment "test: NAME", by name.
func markedBlocks(t *testing.T, page string) map[string]string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("..", "..", "docs", page))
	found := make(map[string]string)
	for _, block := range regexp.MustCompile("(?s)<!-- test: ([^>]+) -->\n```[a-z]+\n(.*?)```").FindAllSubmatch(text, -1) {
		found[string(block[1])] = string(block[2])
	}
	return found
}

// environmentLines returns the lines of a page in docs that read the addresses of `make dev`.
func environmentLines(t *testing.T, page string) string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("..", "..", "docs", page))
	lines := regexp.MustCompile(`(?m)^ {4}.*\.dev/env.*\n(?: {4}.*\n)*`).Find(text)
	if lines == nil {
		t.Fatalf("docs/%s does not read .dev/env", page)
	}
	return string(lines)
}

// writeEnvironment writes the addresses into a folder as `make dev` does.
func writeEnvironment(t *testing.T, folder string, variables ...state.Variable) {
	t.Helper()
	check.NoError(t, state.Dir(filepath.Join(folder, ".dev")).WriteEnv(state.EnvFile, variables))
}

// node returns the Node of hack/npm and its packages. The variable EXAMPREP_TEST_NPM names their folder.
func node(t *testing.T) (program, packages string) {
	t.Helper()
	packages = testenv.Get(t, testenv.NPM)
	return filepath.Join(packages, "bin", "node"), filepath.Join(packages, "node_modules")
}

// countRefusals returns the address of a proxy to an API, and a counter of its responses with status 429.
func countRefusals(t *testing.T, api string) (address string, refused *atomic.Int64) {
	t.Helper()
	refused = new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: api})
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, refused
}

// TestProgramsOfTheQuickStartSubmitAfter429 runs each program of docs/quickstart-api.md on an API, with a key that has one request
// every three seconds. A program that takes longer between its requests gets no 429, and runs again.
func TestProgramsOfTheQuickStartSubmitAfter429(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.Run(t, "content", "publish", "../../config/samples")
	pod := s.start("api")
	t.Run("programs", func(t *testing.T) { runPrograms(t, s, pod.Address) })
	pod.Stop()
}

// runPrograms runs the programs of the page, each in a folder that has the file .dev/env, after the line that reads it.
func runPrograms(t *testing.T, s *env, api string) {
	t.Helper()
	program, _ := node(t)
	module, err := filepath.Abs(".")
	check.NoError(t, err)
	blocks := markedBlocks(t, "quickstart-api.md")
	check.Equal(t, len(blocks), 3, "programs on the page")
	for name, c := range map[string]struct{ command, prints string }{
		"attempt.sh":  {`. ./attempt.sh`, `(?s)"exam_key":"sample-geography".*"score":28.57,`},
		"attempt.mts": {program + ` attempt.mts`, `(?s)exam_key: 'sample-geography'.*score: 28.57,`},
		"attempt.go":  {`program=$PWD/attempt.go; cd ` + module + `; go run -trimpath "$program"`, `^1 exams, score 28.57`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := "account of " + name
			check.NoError(t, s.store.ApplyTier(t.Context(), keys.TierSpec{
				Name: name, Requests: 20, Period: time.Minute, Burst: 1, Accounts: []string{account},
			}))
			address, refused := countRefusals(t, api)
			folder := t.TempDir()
			writeEnvironment(t, folder, state.Variable{Name: "API_URL", Value: address + "/v1"}, state.Variable{Name: "API_KEY", Value: s.newKey(account)})
			testkit.WriteFile(t, filepath.Join(folder, name), []byte(blocks[name]))
			for refused.Load() == 0 {
				command := exec.CommandContext(t.Context(), "sh", "-euc", environmentLines(t, "quickstart-api.md")+c.command)
				command.Dir = folder
				command.Env = append(os.Environ(), "CGO_ENABLED=0")
				out, err := command.CombinedOutput()
				check.NoErrorf(t, err, "%s", out)
				if !regexp.MustCompile(c.prints).Match(out) {
					t.Fatalf("it prints %s, want %s", out, c.prints)
				}
			}
		})
	}
}

// TestTypeScriptOfTheGuidesHasNoErrorOfTypes compiles the programs of docs/quickstart-api.md and docs/webhooks.md as strictly as
// TypeScript does.
func TestTypeScriptOfTheGuidesHasNoErrorOfTypes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program, packages := node(t)
	check.NoError(t, os.Symlink(packages, filepath.Join(folder, "node_modules")))
	testkit.WriteFile(t, filepath.Join(folder, "attempt.mts"), []byte(markedBlocks(t, "quickstart-api.md")["attempt.mts"]))
	testkit.WriteFile(t, filepath.Join(folder, "verify.mts"), testkit.ReadFile(t, filepath.Join("..", "..", "hack", "receiver", "verify", "verify.ts")))
	testkit.WriteFile(t, filepath.Join(folder, "fetch.mts"), []byte(`import createClient from "openapi-fetch";
declare const patientFetch: (input: string | Request, init?: RequestInit) => Promise<Response>;
createClient({ fetch: patientFetch });
`))
	command := exec.CommandContext(t.Context(), program, filepath.Join(packages, "typescript", "bin", "tsc"), "--noEmit", "--strict",
		"--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--erasableSyntaxOnly", "--skipLibCheck", "--types", "node",
		"--target", "es2023", "--lib", "es2023,dom", "--module", "nodenext", "attempt.mts", "verify.mts", "fetch.mts")
	command.Dir = folder
	out, err := command.CombinedOutput()
	check.NoErrorf(t, err, "%s", out)
}
