package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

// Program runs processes of one program.
type Program struct {
	Path string
	// Env is added to the test's environment.
	Env []string
}

// Run runs a command to its end and returns its standard output.
func (p *Program) Run(t testing.TB, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), p.Path, args...)
	command.Env = append(os.Environ(), p.Env...)
	var failed bytes.Buffer
	command.Stderr = &failed
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("examprep %v: %v\n%s", args, err, failed.Bytes())
	}
	return printed
}

// Installation is a database and a Redis behind proxies, a receiver, and a program that uses them.
type Installation struct {
	*Program

	// Database and Cache are the servers' URLs. The processes know those of the proxies.
	Database, Cache string
	Postgres, Redis *Proxy
}

// NewInstallation returns an installation of an environment: "sandbox" or "production". Its workers trust the receiver.
// The processes' namespace secret is Secret(7) and their encryption key is "test:" and Secret(8).
func NewInstallation(t testing.TB, path, environment, database, cache string, receiver *httptest.Server) *Installation {
	t.Helper()
	i := &Installation{
		Database: database, Cache: cache,
		Postgres: StartProxy(t, database, ProxyOptions{Record: new(Record)}), Redis: StartProxy(t, cache, ProxyOptions{Record: new(Record)}),
	}
	i.Program = &Program{Path: path, Env: []string{
		"DATABASE_URL=" + i.Postgres.URL, "REDIS_URL=" + i.Redis.URL,
		"EXAMPREP_ENVIRONMENT=" + environment, "EXAMPREP_NAMESPACE_SECRET=" + Secret(7), "EXAMPREP_ENCRYPTION_KEYS=test:" + Secret(8),
		"EXAMPREP_WEBHOOK_ALLOW_CIDR=127.0.0.0/8", "EXAMPREP_WEBHOOK_CA_FILE=" + CAFile(t, receiver),
	}}
	return i
}

// NewKey creates an API key of an account.
func (p *Program) NewKey(t testing.TB, account string) string {
	t.Helper()
	var issued struct {
		Key string `json:"key"`
	}
	check.NoError(t, json.Unmarshal(p.Run(t, "keys", "create", "--account", account, "-o", "json"), &issued))
	return issued.Key
}

// Pod is a process of the product, with addresses of its own.
type Pod struct {
	Address, Health, Metrics string
	// Log is the process's output.
	Log *Record
	// MayFail admits an exit code other than 0 after Stop.
	MayFail bool
	// Stop sends SIGTERM and waits for the process's end.
	Stop    func()
	process *os.Process
}

// NewPod returns a pod without a process.
func NewPod(t testing.TB) *Pod {
	t.Helper()
	return &Pod{Address: FreeAddress(t), Health: FreeAddress(t), Metrics: FreeAddress(t), Log: new(Record)}
}

// Start starts the pod's process, for the first time or again. env is added to the program's environment.
func (p *Pod) Start(t testing.TB, program *Program, env []string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program.Path, args...)
	command.Env = append(append(os.Environ(), program.Env...),
		"EXAMPREP_HEALTH_LISTEN="+p.Health, "EXAMPREP_METRICS_LISTEN="+p.Metrics, "EXAMPREP_LISTEN="+p.Address)
	command.Env = append(command.Env, env...)
	command.Stdout, command.Stderr = p.Log, p.Log
	check.NoError(t, command.Start())
	p.process = command.Process
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	p.Stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil && !p.MayFail {
				t.Errorf("examprep %v: %v\n%s", args, err, p.Log)
			}
		case <-time.After(2 * Patience): // longer than a shutdown grace
			_ = command.Process.Kill()
			t.Errorf("examprep %v did not end\n%s", args, p.Log)
		}
	})
	t.Cleanup(p.Stop)
}

// Signal sends another signal to the process.
func (p *Pod) Signal(signal os.Signal) error { return p.process.Signal(signal) }

// PID returns the id of the process.
func (p *Pod) PID() int { return p.process.Pid }

// Answers reports whether a pod answers a path at an address with status 200.
func Answers(address, path string) bool {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Scrape returns a pod's metrics as text; it is empty if the pod does not answer.
func (p *Pod) Scrape() string {
	answer, err := http.Get("http://" + p.Metrics + "/metrics")
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}
