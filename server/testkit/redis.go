package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/ports"
)

// Redis returns a client of the test server, and a prefix for names that no other test uses. The client waits long: it repeats a
// call that it gave up, and Redis may run both.
func Redis(t testing.TB) (client redis.UniversalClient, prefix string) {
	t.Helper()
	patient := func(o *redis.UniversalOptions) {
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Patience, Patience, Patience
	}
	return OpenRedis(t, RedisURL(t), patient), "test:" + uuid.NewString() + ":"
}

// OpenRedis returns a client of the server at address. adjust can change the client's options; it can be nil.
func OpenRedis(t testing.TB, address string, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	client, err := redisurl.Open(address, adjust)
	check.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// RedisServer is a redis-server of one test, which can kill, pause and restart it.
type RedisServer struct {
	t    testing.TB
	port string
	bus  string // port of a Cluster's bus
	dir  string
	args []string
	cmd  *exec.Cmd
}

// StartRedis starts a server. Without arguments it keeps nothing on disk.
func StartRedis(t testing.TB, arguments ...string) *RedisServer {
	t.Helper()
	s := newRedis(t)
	s.args = append([]string{
		"--port", s.port, "--cluster-port", s.bus, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--repl-diskless-sync-delay", "0",
	}, arguments...)
	s.Start()
	return s
}

// StartRedisFile starts a server with settings in a file, where Redis and Sentinel store the server's role. args follow
// the name of the file on the command line.
func StartRedisFile(t testing.TB, settings []string, args ...string) *RedisServer {
	t.Helper()
	s := newRedis(t)
	settings = append([]string{"bind 127.0.0.1", "port " + s.port, "dir " + s.dir}, settings...)
	file := filepath.Join(s.dir, "redis.conf")
	check.NoError(t, os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o600))
	s.args = append([]string{file}, args...)
	s.Start()
	return s
}

func newRedis(t testing.TB) *RedisServer {
	t.Helper()
	s := &RedisServer{t: t, dir: t.TempDir(), port: strconv.Itoa(ports.Reserve(t)), bus: strconv.Itoa(ports.Reserve(t))}
	t.Cleanup(s.Kill)
	return s
}

// Start starts the server on its port with the data that it last saved, and waits until it answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), startTime)
	defer cancel()
	check.NoError(s.t, s.launch(ctx))
}

// StartEmpty starts the server without its data, and returns when it answers. Goroutines other than the test's can call it.
func (s *RedisServer) StartEmpty(ctx context.Context) error {
	_ = os.Remove(filepath.Join(s.dir, "dump.rdb"))
	return s.launch(ctx)
}

func (s *RedisServer) launch(ctx context.Context) error {
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", s.args...)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	return Await(ctx, "redis-server answers", func(ctx context.Context) error { return admin.Ping(ctx).Err() })
}

// Kill ends the server with SIGKILL. It does nothing if the server is down.
func (s *RedisServer) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Pause stops the server's process and keeps its connections open. Resume continues it.
func (s *RedisServer) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *RedisServer) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Port returns the server's port on 127.0.0.1.
func (s *RedisServer) Port() string { return s.port }

// BusPort returns the port of the server's Cluster bus, if it is a node of a Cluster.
func (s *RedisServer) BusPort() string { return s.bus }

// Number returns the port as a number.
func (s *RedisServer) Number() int {
	number, _ := strconv.Atoi(s.port)
	return number
}

// Address returns the server's host and port.
func (s *RedisServer) Address() string { return "127.0.0.1:" + s.port }

// URL returns the server's redis:// URL.
func (s *RedisServer) URL() string { return "redis://" + s.Address() }

// Admin returns a client. It is closed when the test ends.
func (s *RedisServer) Admin() *redis.Client {
	admin := redis.NewClient(&redis.Options{Addr: s.Address(), DialTimeout: Patience, ReadTimeout: Patience, WriteTimeout: Patience})
	s.t.Cleanup(func() { _ = admin.Close() })
	return admin
}

// Calls returns the number of calls of a command, for example "evalsha" or "script|load", from the server's statistics.
func (s *RedisServer) Calls(command string) int64 {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	stats, err := admin.Info(s.t.Context(), "commandstats").Result()
	check.NoError(s.t, err)
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

// Guarded is a Redis with a replica and the Sentinels that watch both.
type Guarded struct {
	Nodes     [2]*RedisServer
	Sentinels []*RedisServer
	// name is the Sentinels' name of the master.
	name string
}

// Watch describes how Sentinels watch a Redis.
type Watch struct {
	Name              string // of the master
	Sentinels, Quorum int
	// Down is the time without an answer after which a Sentinel considers the master down.
	Down time.Duration
	// Failover is the time-out of a failover.
	Failover time.Duration
}

// StartSentinels starts the Sentinels of a master and its replica.
func StartSentinels(t testing.TB, master, replica *RedisServer, watch Watch) *Guarded {
	t.Helper()
	g := &Guarded{Nodes: [2]*RedisServer{master, replica}, name: watch.Name}
	for range watch.Sentinels {
		g.Sentinels = append(g.Sentinels, StartRedisFile(t, []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d", watch.Name, master.port, watch.Quorum),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", watch.Name, watch.Down.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s %d", watch.Name, watch.Failover.Milliseconds()),
		}, "--sentinel"))
	}
	return g
}

// URL returns the sentinel:// URL of the product's configuration.
func (g *Guarded) URL() string {
	addresses := make([]string, len(g.Sentinels))
	for i, sentinel := range g.Sentinels {
		addresses[i] = sentinel.Address()
	}
	return "sentinel://" + strings.Join(addresses, ",") + "/" + g.name
}

// Ask calls ask with a client of each Sentinel, and returns the first error.
func (g *Guarded) Ask(ask func(*redis.SentinelClient) error) error {
	for _, sentinel := range g.Sentinels {
		client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Address(), MaxRetries: -1})
		err := ask(client)
		_ = client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Master returns the master of the first Sentinel, and the other node.
func (g *Guarded) Master(ctx context.Context) (master, replica *RedisServer, err error) {
	client := redis.NewSentinelClient(&redis.Options{Addr: g.Sentinels[0].Address()})
	defer func() { _ = client.Close() }()
	address, err := client.GetMasterAddrByName(ctx, g.name).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("ask the Sentinel for the master: %w", err)
	}
	switch net.JoinHostPort(address[0], address[1]) {
	case g.Nodes[0].Address():
		return g.Nodes[0], g.Nodes[1], nil
	case g.Nodes[1].Address():
		return g.Nodes[1], g.Nodes[0], nil
	default:
		return nil, nil, fmt.Errorf("the Sentinel's master is not a node: %v", address)
	}
}

// Moved waits until all Sentinels have another master than old.
func (g *Guarded) Moved(ctx context.Context, old *RedisServer) error {
	return Await(ctx, "the Sentinels have another master", func(ctx context.Context) error {
		return g.Ask(func(s *redis.SentinelClient) error {
			address, err := s.GetMasterAddrByName(ctx, g.name).Result()
			if err == nil && address[1] == old.port {
				err = fmt.Errorf("it is still %s", old.Address())
			}
			return err
		})
	})
}

// Follow makes the server a replica of master at once. A Sentinel does so only after ten seconds.
func (s *RedisServer) Follow(ctx context.Context, master *RedisServer) error {
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	return Await(ctx, "the node follows", func(ctx context.Context) error {
		return admin.ReplicaOf(ctx, "127.0.0.1", master.port).Err()
	})
}

// StartCluster starts a Redis Cluster of two masters and returns the address of one.
func StartCluster(t testing.TB) string {
	t.Helper()
	first, second := StartRedis(t, "--cluster-enabled", "yes"), StartRedis(t, "--cluster-enabled", "yes")
	a, b := first.Admin(), second.Admin()
	for _, err := range []error{
		a.ClusterAddSlotsRange(t.Context(), 0, 8191).Err(),
		b.ClusterAddSlotsRange(t.Context(), 8192, 16383).Err(),
		b.Do(t.Context(), "cluster", "set-config-epoch", 2).Err(),
		a.Do(t.Context(), "cluster", "meet", "127.0.0.1", second.Port(), second.BusPort()).Err(),
	} {
		check.NoError(t, err)
	}
	for _, node := range []*redis.Client{a, b} {
		Eventually(t, "the cluster is whole", func() bool {
			shards, err := node.ClusterShards(t.Context()).Result()
			return err == nil && len(shards) == 2 && strings.HasPrefix(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
	}
	return first.Address()
}
