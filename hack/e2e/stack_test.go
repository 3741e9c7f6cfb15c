//go:build e2e

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// root is the project's folder, seen from this package's.
	root = "../.."
	// namespace holds what the proofs apply, rivalNamespace a second claimant.
	namespace, rivalNamespace = "e2e", "e2e-rival"
	// accountName owns the key; tierName raises its allowance out of the way.
	accountName, tierName = "e2e", "e2e"
)

type stack struct {
	env         map[string]string
	kubectlPath string
	api         *crowdtest.API
	receiver    *crowdtest.Receiver
}

// connect reads .dev/env, empties the namespaces, makes a key on a raised tier, and takes all of it away at the end.
func connect(t *testing.T) *stack {
	t.Helper()
	s := &stack{env: readEnv(t, filepath.Join(root, ".dev", "env"))}
	if s.env["READY"] != "1" {
		t.Fatal("the stack is not Ready: run `make dev` first")
	}
	s.kubectlPath = findKubectl(t)
	for _, ns := range []string{namespace, rivalNamespace} {
		s.kubectl(t, "", "apply", "--server-side", "-f", write(t, "namespace.yaml",
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+"}\n"))
	}
	s.removeResources(t)
	t.Cleanup(func() { s.removeResources(t) })
	contract := crowdtest.NewContract(t)
	s.receiver = crowdtest.NewReceiver(crowdtest.FileLog(s.env["RECEIVER_LOG"]), contract)
	s.api = crowdtest.NewAPI(s.env["API_URL"], s.createKey(t), contract)
	return s
}

// createKey makes the tier, waits until it is in effect and creates a key on it, revoked at the end.
func (s *stack) createKey(t *testing.T) string {
	t.Helper()
	s.kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join("testdata", "ratetier.yaml"))
	s.kubectl(t, "", "wait", "--for=condition=Ready", "ratetier/"+tierName, "-n", namespace, "--timeout=60s")
	var issued struct {
		Key    string `json:"key"`
		Prefix string `json:"key_prefix"`
	}
	decode(t, s.examprep(t, "keys", "create", "--account", accountName, "--tier", tierName, "-o", "json"), &issued)
	t.Cleanup(func() { s.examprep(t, "keys", "revoke", issued.Prefix, "-o", "json") })
	return issued.Key
}

func (s *stack) removeResources(t *testing.T) {
	t.Helper()
	for _, ns := range []string{rivalNamespace, namespace} {
		for name := range strings.FieldsSeq(s.kubectl(t, "", "get", "examcontents", "-n", ns, "-o", "name")) {
			s.kubectl(t, "", "patch", name, "-n", ns, "--type=merge", "-p", `{"spec":{"deletionPolicy":"Delete"}}`)
		}
		s.kubectl(t, "", "delete", "examcontents,ratetiers", "--all", "-n", ns, "--timeout=120s")
		s.kubectl(t, "", "delete", "configmaps", "-l", "examprep.dev/content=true", "-n", ns)
	}
}

// kubectl runs kubectl and returns what it printed. It fails the test when kubectl fails.
func (s *stack) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := s.tryKubectl(t, input, args...)
	check.NoErrorf(t, err, "kubectl %s", strings.Join(args, " "))
	return out
}

// tryKubectl is kubectl for commands that may be refused; the error holds what kubectl said.
func (s *stack) tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	return s.run(t, input, s.kubectlPath, args...)
}

// examprep runs the program against the stack's database and Redis.
func (s *stack) examprep(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.run(t, "", filepath.Join(root, "bin", "examprep"), args...)
	check.NoErrorf(t, err, "examprep %s", strings.Join(args, " "))
	return out
}

func (s *stack) run(t *testing.T, input, name string, args ...string) (string, error) {
	t.Helper()
	var environment []string
	for key, value := range s.env {
		environment = append(environment, key+"="+value)
	}
	return crowdtest.Run(t, 5*time.Minute, environment, input, name, args...)
}

func (*stack) pid(process string) int {
	text, err := os.ReadFile(filepath.Join(root, ".dev", "pids", process+".pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// kill ends a process with SIGKILL and waits until the supervisor has started another.
func (s *stack) kill(t *testing.T, process string) {
	t.Helper()
	old := s.pid(process)
	if old == 0 {
		t.Errorf("no process %s to kill", process)
		return
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Errorf("kill %s: %v", process, err)
		return
	}
	killed := time.Now()
	eventually(t, time.Minute, "a new "+process, func() bool { pid := s.pid(process); return pid != 0 && pid != old })
	t.Logf("killed %s (pid %d); another runs after %s", process, old, time.Since(killed).Round(time.Millisecond))
}

func findKubectl(t *testing.T) string {
	t.Helper()
	candidates := []string{filepath.Join(root, ".dev", "bin", "kubectl")}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		candidates = append(candidates, filepath.Join(assets, "kubectl"))
	}
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); err == nil {
			return candidate
		}
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatalf("no kubectl in %v nor in PATH", candidates)
	}
	return path
}

func readEnv(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	check.NoErrorf(t, err, "is the stack running?")
	defer func() { _ = file.Close() }()
	env := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			env[key] = value
		}
	}
	return env
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.WriteFile(t, path, []byte(text))
	return path
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	testkit.Decode(t, []byte(text), into)
}

// eventually waits until done holds, looking every 20 ms. It returns how long that took.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	return crowdtest.Eventually(t, limit, 20*time.Millisecond, what, done)
}
