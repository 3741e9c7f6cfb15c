package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/server/testkit/check"
)

// startTime bounds the start of a server, with what prepares it.
const startTime = 3 * Patience

// Supervised runs processes of one test and restarts those that end. The test can kill them by name.
type Supervised struct {
	*process.Supervisor
	// Dir is a folder that PostgreSQL's user can enter.
	Dir string
}

// Supervise returns a supervisor without processes.
func Supervise(t testing.TB) *Supervised {
	t.Helper()
	dir, err := os.MkdirTemp("", "examprep-test-") //nolint:usetesting // PostgreSQL's user cannot enter t.TempDir()
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check.NoError(t, os.Chmod(dir, 0o755))
	s := &Supervised{Dir: dir}
	check.NoError(t, s.renew(t.Logf))
	t.Cleanup(func() { s.Stop() })
	return s
}

func (s *Supervised) renew(logf func(string, ...any)) (err error) {
	s.Supervisor, err = process.New(filepath.Join(s.Dir, "logs"), filepath.Join(s.Dir, "pids"), logf)
	return err
}

// Log returns the output of a process since its last start by the test.
func (s *Supervised) Log(name string) string {
	raw, err := os.ReadFile(filepath.Join(s.Dir, "logs", name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill ends a process with SIGKILL. The supervisor restarts it.
func (s *Supervised) Kill(name string) error {
	pid, err := s.pid(name)
	if err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	// PostgreSQL restarts only after the last of its children has ended. Stopped, it cannot notice their end.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // the child can have ended meanwhile
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

func (s *Supervised) pid(name string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(s.Dir, "pids", name+".pid"))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err == nil && !slices.Contains(children(os.Getpid()), pid) {
		err = fmt.Errorf("process %d is down", pid) // another process can have the number now
	}
	return pid, err
}

// children returns the IDs of the processes that a process has started.
func children(parent int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// PostgresProcess is the name of PostgreSQL's process, for [Supervised.Kill].
const PostgresProcess = "postgres"

// StartPostgres starts a PostgreSQL server and returns the URL of its empty database. Committed data survives a kill.
func (s *Supervised) StartPostgres(ctx context.Context, address string, settings ...string) (string, error) {
	return servers.StartPostgres(ctx, s.Supervisor, servers.PostgresConfig{
		Data: filepath.Join(s.Dir, PostgresProcess), Address: address, Password: "private", Database: "examprep", Settings: settings,
	})
}

// PostgresServer is a PostgreSQL server of one test, which can stop and restart it.
type PostgresServer struct {
	// URL is the address of an empty database.
	URL string

	address    string
	supervised *Supervised
	logf       func(string, ...any)
}

// StartPostgres starts a server. It does not flush: its data survives all but a crash of the machine.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	p := &PostgresServer{address: FreeAddress(t), supervised: Supervise(t), logf: t.Logf}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	check.NoError(t, p.start(ctx))
	return p
}

func (p *PostgresServer) start(ctx context.Context) (err error) {
	p.URL, err = p.supervised.StartPostgres(ctx, p.address, "fsync=off")
	return err
}

// Restart stops the server with a signal and starts it again: SIGINT for a fast shutdown, SIGQUIT for an immediate one,
// which requires recovery. It returns when the server answers.
func (p *PostgresServer) Restart(ctx context.Context, mode syscall.Signal) error {
	pid, err := p.supervised.pid(PostgresProcess)
	if err == nil {
		err = syscall.Kill(pid, mode)
	}
	if err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	p.supervised.Stop() // sends SIGINT, which cannot weaken the mode
	if err := p.supervised.renew(p.logf); err != nil {
		return err
	}
	return p.start(ctx)
}
