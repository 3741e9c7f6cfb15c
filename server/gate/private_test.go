package gate_test

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/postgres/postgrestest"
)

// server is a Redis of the test's own, to be killed, paused and restarted.
type server struct {
	t    testing.TB
	port string
	args []string
	cmd  *exec.Cmd
}

func startServer(t testing.TB, arguments ...string) *server {
	t.Helper()
	var port string
	postgrestest.Eventually(t, "two ports are free", func() bool {
		_, port, _ = net.SplitHostPort(postgrestest.FreeAddress(t))
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+busPort(port))
		return err == nil && listener.Close() == nil
	})
	s := &server{t: t, port: port, args: append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--repl-diskless-sync-delay", "0",
	}, arguments...)}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// busPort is where a Cluster's node at port talks to the others.
func busPort(port string) string {
	number, _ := strconv.Atoi(port)
	return strconv.Itoa(number + 10_000)
}

// start starts the server on its port with the data that it last saved, and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	admin := s.admin()
	defer func() { _ = admin.Close() }()
	postgrestest.Eventually(s.t, "redis-server answers", func() bool { return admin.Ping(context.Background()).Err() == nil })
}

func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *server) address() string { return "127.0.0.1:" + s.port }

// admin returns a client for the test itself.
func (s *server) admin() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.address()}) }

func (s *server) number() int64 {
	n, _ := strconv.ParseInt(s.port, 10, 64)
	return n
}

// route is an address that moves from one server to another, as a Sentinel client's does.
type route struct{ port atomic.Int64 }

func (r *route) to(s *server) { r.port.Store(s.number()) }

// client returns a gate's client along the route.
func (r *route) client(t testing.TB) redis.UniversalClient {
	t.Helper()
	return r.clientWith(t, patientOptions)
}

func (r *route) clientWith(t testing.TB, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	options := &redis.UniversalOptions{Addrs: []string{"redis.test:6379"}}
	adjust(options)
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(r.port.Load(), 10))
		return (&net.Dialer{Timeout: options.DialTimeout}).DialContext(ctx, network, address)
	}
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// clientOf returns a gate's client of one server.
func clientOf(t testing.TB, s *server) redis.UniversalClient {
	t.Helper()
	var r route
	r.to(s)
	return r.client(t)
}
