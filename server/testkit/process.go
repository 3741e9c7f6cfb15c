package testkit

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
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

// Pod is a process of the product, with addresses of its own.
type Pod struct {
	Address, Health, Metrics string
	// Log is the process's output.
	Log *Record
	// Stop sends SIGTERM and returns how the process ended.
	Stop func() error
}

// NewPod returns a pod without a process.
func NewPod(t testing.TB) *Pod {
	t.Helper()
	return &Pod{Address: FreeAddress(t), Health: FreeAddress(t), Metrics: FreeAddress(t), Log: new(Record)}
}

// Start starts the pod's process. env is added to the program's environment. The process must be stopped by the caller.
func (p *Pod) Start(t testing.TB, program *Program, env []string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program.Path, args...)
	command.Env = append(append(os.Environ(), program.Env...),
		"EXAMPREP_HEALTH_LISTEN="+p.Health, "EXAMPREP_METRICS_LISTEN="+p.Metrics, "EXAMPREP_LISTEN="+p.Address)
	command.Env = append(command.Env, env...)
	command.Stdout, command.Stderr = p.Log, p.Log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	p.Stop = sync.OnceValue(func() error {
		_ = command.Process.Signal(syscall.SIGTERM)
		return <-ended
	})
}

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
