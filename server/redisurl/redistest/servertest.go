package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/postgres/postgrestest"
	"examprep.dev/server/testkit/ports"
)

// Server is a redis-server of one test's own, to be killed, paused and started again. It ends with the test.
type Server struct {
	t    testing.TB
	port string
	bus  string // port of a Cluster's bus
	args []string
	cmd  *exec.Cmd
}

// StartServer starts a server that keeps nothing on disk unless arguments say so.
func StartServer(t testing.TB, arguments ...string) *Server {
	t.Helper()
	s := &Server{t: t, port: strconv.Itoa(ports.Reserve(t)), bus: strconv.Itoa(ports.Reserve(t))}
	s.args = append([]string{
		"--port", s.port, "--cluster-port", s.bus, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--repl-diskless-sync-delay", "0",
	}, arguments...)
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// StartSentinel starts a Sentinel that watches master by that name, and promotes a replica when quorum Sentinels have not
// heard of it for so long.
func StartSentinel(t testing.TB, name string, master *Server, quorum int, down time.Duration) *Server {
	t.Helper()
	s := &Server{t: t, port: strconv.Itoa(ports.Reserve(t))}
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // it writes down there what it learns
	settings := []string{
		"port " + s.port, "bind 127.0.0.1", "dir " + dir,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d", name, master.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", name, down.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", name, 6*down.Milliseconds()),
	}
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Start starts the server on its port with the data that it last saved, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), "redis-server", s.args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	postgrestest.Eventually(s.t, "redis-server answers", func() bool { return admin.Ping(context.Background()).Err() == nil })
}

// Kill ends the server at once, as SIGKILL does; once more does nothing.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Pause stops the server where it is, its connections open; Resume lets it go on.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Port is where the server listens on 127.0.0.1.
func (s *Server) Port() string { return s.port }

// BusPort is where the server's Cluster bus listens if it is a node of a Cluster.
func (s *Server) BusPort() string { return s.bus }

// Address is Port with its host.
func (s *Server) Address() string { return "127.0.0.1:" + s.port }

// Admin returns a client for the test itself, which closes it.
func (s *Server) Admin() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.Address()}) }

// Calls returns how often the server was asked for a command, by its statistics: "evalsha", or "script|load".
func (s *Server) Calls(command string) int64 {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	stats, err := admin.Info(s.t.Context(), "commandstats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	_, after, found := strings.Cut(stats, "cmdstat_"+command+":calls=")
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(after, ",")
	calls, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("%s was called %q times", command, text)
	}
	return calls
}
