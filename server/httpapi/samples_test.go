package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/testkit/check"
)

// codeSample is a sample of x-codeSamples.
type codeSample struct {
	Lang   string `json:"lang"`
	Source string `json:"source"`
}

// documented is an operation as the contract shows it to a reader.
type documented struct {
	ID          string `json:"operationId"`
	RequestBody struct {
		Content map[string]struct {
			Example json.RawMessage `json:"example"`
		} `json:"content"`
	} `json:"requestBody"`
	Samples []codeSample `json:"x-codeSamples"`
}

// sampleRun is the code sample of an operation for a request that succeeds.
type sampleRun struct {
	operation openapitest.Operation
	source    string
	session   string
}

// sampleRuns returns the samples of all operations in a language. A sample shows an example's names: they are replaced by names
// that exist on the stage, and the rest runs as it is written.
func (s *stage) sampleRuns(language string) []sampleRun {
	s.t.Helper()
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	check.NoError(s.t, json.Unmarshal(openapi.JSON(), &contract))
	shown := map[string]documented{}
	for _, item := range contract.Paths {
		for method, text := range item {
			if method == "parameters" {
				continue
			}
			var d documented
			check.NoError(s.t, json.Unmarshal(text, &d))
			shown[d.ID] = d
		}
	}
	var runs []sampleRun
	for _, o := range document(s.t).Operations() {
		d, request := shown[o.ID], s.request(o)
		at := slices.IndexFunc(d.Samples, func(one codeSample) bool { return one.Lang == language })
		if at < 0 {
			s.t.Errorf("%s has no sample in %s", o.ID, language)
			continue
		}
		source := d.Samples[at].Source
		path, _, _ := strings.Cut(strings.TrimPrefix(request.path, "/v1"), "?")
		source = replaceOnce(s.t, source, shownPath(s.t, source), path)
		if example := d.RequestBody.Content["application/json"].Example; example != nil {
			source = replaceOnce(s.t, source, shownBody(s.t, source), request.body)
		}
		session := ""
		if cookie := request.header["Cookie"]; cookie != "" {
			_, session, _ = strings.Cut(cookie, "=")
		}
		runs = append(runs, sampleRun{o, source, session})
	}
	return runs
}

// shownPath returns the path of the API in a sample.
func shownPath(t testing.TB, source string) string {
	t.Helper()
	base := strings.Index(source, "API_URL")
	if base < 0 {
		t.Fatalf("the sample does not name the API's address:\n%s", source)
	}
	start := base + strings.IndexByte(source[base:], '/')
	return source[start : start+strings.IndexAny(source[start:], "\"`")]
}

// shownBody returns the JSON object in a sample.
func shownBody(t testing.TB, source string) string {
	t.Helper()
	for start := range source {
		if source[start] != '{' || strings.HasPrefix(source[start:], "{\n") {
			continue
		}
		var body json.RawMessage
		if decoder := json.NewDecoder(strings.NewReader(source[start:])); decoder.Decode(&body) == nil {
			return string(body)
		}
	}
	t.Fatalf("the sample has no JSON object:\n%s", source)
	return ""
}

func replaceOnce(t testing.TB, text, old, replacement string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not once in:\n%s", old, text)
	}
	return strings.Replace(text, old, replacement, 1)
}

// sampleStage is a stage whose samples can be run in every language.
func sampleStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.cookie = s.signIn("ada")
	s.hook = s.newWebhook(s.cookie)
	return s
}

func (s *stage) environment(session string) []string {
	return append(os.Environ(), "API_URL=http://"+s.Address+"/v1", "API_KEY="+s.Key, "API_SESSION="+session)
}

func TestEverySampleInShellRuns(t *testing.T) {
	t.Parallel()
	s := sampleStage(t)
	curl, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("curl is missing: run make deps")
		}
		t.Skip("curl is missing: run make deps")
	}
	for _, run := range s.sampleRuns("Shell") {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.Replace(run.source, "curl ", curl+" --silent --show-error ", 1))
		cmd.Env = s.environment(run.session)
		output(t, cmd)
	}
}

func TestEverySampleInTypeScriptRuns(t *testing.T) {
	t.Parallel()
	s, folder := sampleStage(t), t.TempDir()
	var driver strings.Builder
	for _, run := range s.sampleRuns("TypeScript") {
		check.NoError(t, os.WriteFile(filepath.Join(folder, run.operation.ID+".ts"), []byte(run.source), 0o600))
		fmt.Fprintf(&driver, "process.env.API_SESSION = %q;\nawait import(\"./%s.ts\");\n", run.session, run.operation.ID)
	}
	check.NoError(t, os.WriteFile(filepath.Join(folder, "driver.mjs"), []byte(driver.String()), 0o600))
	cmd := node(t, filepath.Join(folder, "driver.mjs"))
	cmd.Env = s.environment("")
	output(t, cmd)
}

func TestEverySampleInGoRuns(t *testing.T) {
	t.Parallel()
	s, files := sampleStage(t), map[string]string{}
	var driver strings.Builder
	driver.WriteString("package main\n\nimport \"os\"\n\nfunc main() {\n")
	for _, run := range s.sampleRuns("Go") {
		files[strings.ToLower(run.operation.ID)+"_sample.go"] = strings.Replace(run.source, "func main()", "func "+run.operation.ID+"Main()", 1)
		fmt.Fprintf(&driver, "\tos.Setenv(\"API_SESSION\", %q)\n\t%sMain()\n", run.session, run.operation.ID)
	}
	driver.WriteString("}\n")
	files["main.go"] = driver.String()
	cmd := exec.CommandContext(t.Context(), buildGo(t, files))
	cmd.Env = s.environment("")
	output(t, cmd)
}

// buildGo vets and compiles a program of this module whose files exist only in the test, and returns the path of the binary.
func buildGo(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	check.NoError(t, err)
	replaced := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		written := filepath.Join(folder, name)
		check.NoError(t, os.WriteFile(written, []byte(files[name]), 0o600))
		replaced[filepath.Join(root, "server", "httpapi", "testdata", name)] = written
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	check.NoError(t, err)
	check.NoError(t, os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600))
	binary := filepath.Join(folder, "program")
	for _, command := range [][]string{{"vet"}, {"build", "-o", binary}} {
		args := append(slices.Clone(command), "-trimpath", "-overlay", filepath.Join(folder, "overlay.json"), "./server/httpapi/testdata")
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		output(t, cmd)
	}
	return binary
}
