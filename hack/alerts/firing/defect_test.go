package firing

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

// TestAlertsOfADefect builds the program with a defect that one operation meets: no request is known that makes one panic.
func TestAlertsOfADefect(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	s.Path = defective(t, "../../../server/catalog/read/snapshot.go", "func (s *Snapshot) Resources(examKey string) (Document, error) {\n")
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	p.quiet(4, s.works(api))
	p.fire(5*time.Minute, func() {
		s.works(api)()
		check.Equal(t, s.ask(api, s.key, "192.0.2.1", "GET", exam+"/resources", ""), http.StatusInternalServerError, "status of a panic")
	}, "ExamprepAPIPanics")
}

// defective builds the program with a function that panics. line is the one that the function begins with.
func defective(t *testing.T, source, line string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(source)
	check.NoError(t, err)
	if strings.Count(string(text), line) != 1 {
		t.Fatalf("%s does not hold %q once", source, line)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if source, err = filepath.Abs(source); err != nil {
		t.Fatal(err)
	}
	replacements, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	check.NoError(t, err)
	panics := strings.Replace(string(text), line, line+"\tif s != nil {\n\t\tpanic(\"a defect\")\n\t}\n", 1)
	for name, content := range map[string][]byte{changed: []byte(panics), overlay: replacements} {
		check.NoError(t, os.WriteFile(name, content, 0o600))
	}
	binary = filepath.Join(dir, "examprep")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-o", binary, ".")
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
