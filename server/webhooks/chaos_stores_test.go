package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
)

// privatePostgres is a PostgreSQL server that a test may stop in the middle of everything. What it committed survives
// that: only the crash of the machine, which no test causes, could take what is not flushed.
type privatePostgres struct {
	data, address string
	owner         *syscall.Credential
	command       *exec.Cmd
}

func (p *privatePostgres) url() string {
	return "postgres://postgres@" + p.address + "/postgres?sslmode=disable"
}

func startPostgres(ctx context.Context, t *testing.T) *privatePostgres {
	t.Helper()
	p := &privatePostgres{address: testkit.FreeAddress(t), owner: postgresOwner(t)}
	var err error
	if p.data, err = os.MkdirTemp("", "examprep-chaos-"); err != nil { // its user cannot enter t.TempDir()
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.data) })
	if p.owner != nil {
		if err := os.Chown(p.data, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := p.program(ctx, "initdb", "-D", p.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	t.Cleanup(func() { p.stop(syscall.SIGQUIT) })
	if err := p.start(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// postgresOwner is whom PostgreSQL runs as when we are root, which it refuses to be.
func postgresOwner(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// program is one of PostgreSQL's: Debian keeps them out of PATH.
func (p *privatePostgres) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		name = slices.Max(found)
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	command.Dir = p.data
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner, Setpgid: true}
	return command
}

// start returns when the server answers, after whatever recovery it needs.
func (p *privatePostgres) start(ctx context.Context) error {
	host, port, _ := net.SplitHostPort(p.address)
	p.command = p.program(ctx, "postgres", "-D", p.data, "-c", "listen_addresses="+host, "-c", "port="+port,
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200",
		"-c", "log_line_prefix=%m [%p] ")
	log, err := os.OpenFile(filepath.Join(p.data, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer func() { _ = log.Close() }()
	p.command.Stderr = log
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return until(ctx, "PostgreSQL answers", func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.url())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// stop ends the server: SIGINT is its fast mode, SIGQUIT its immediate one, after which it recovers as from a crash.
func (p *privatePostgres) stop(mode syscall.Signal) {
	if p.command != nil && p.command.ProcessState == nil && p.command.Process != nil {
		_ = p.command.Process.Signal(mode)
		_ = p.command.Wait()
	}
}

// until asks until an answer is good.
func until(ctx context.Context, what string, ask func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ask(one)
		cancel()
		if err == nil {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("never happened: %s: %w", what, err)
		}
	}
}

// sentinelMaster is the name under which the Sentinel knows its Redis.
const sentinelMaster = "chaos"

// privateRedises are a Redis with a replica and the Sentinel that watches them. Nothing of theirs survives a restart.
type privateRedises struct {
	nodes    []*privateNode
	sentinel *privateNode
	ask      *redis.SentinelClient
	// client goes to whichever node is the master.
	client redis.UniversalClient
}

// privateNode is one process of Redis: its configuration, in which it and the Sentinel write down their roles, outlives it.
type privateNode struct {
	dir, address string
	args         []string
	command      *exec.Cmd
}

func startRedises(ctx context.Context, t *testing.T) *privateRedises {
	t.Helper()
	r := &privateRedises{nodes: make([]*privateNode, 2)}
	for i := range r.nodes {
		settings := "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrdb-del-sync-files yes\n"
		if i > 0 {
			host, port, _ := net.SplitHostPort(r.nodes[0].address)
			settings += "replicaof " + host + " " + port + "\n"
		}
		r.nodes[i] = newNode(t, settings)
	}
	host, port, _ := net.SplitHostPort(r.nodes[0].address)
	r.sentinel = newNode(t, fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 3000\n", sentinelMaster, host, port), "--sentinel")
	for _, node := range append(slices.Clone(r.nodes), r.sentinel) {
		t.Cleanup(node.kill)
		if err := node.start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.ask = redis.NewSentinelClient(&redis.Options{Addr: r.sentinel.address})
	t.Cleanup(func() { _ = r.ask.Close() })
	r.client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinelMaster, SentinelAddrs: []string{r.sentinel.address},
	})
	t.Cleanup(func() { _ = r.client.Close() })
	if err := r.whole(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func newNode(t *testing.T, settings string, args ...string) *privateNode {
	t.Helper()
	n := &privateNode{dir: t.TempDir(), address: testkit.FreeAddress(t)}
	host, port, _ := net.SplitHostPort(n.address)
	file := filepath.Join(n.dir, "redis.conf")
	settings = "bind " + host + "\nport " + port + "\ndir " + n.dir + "\nlogfile " + filepath.Join(n.dir, "log") + "\n" + settings
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	n.args = append([]string{file}, args...)
	return n
}

// start runs it, empty.
func (n *privateNode) start(ctx context.Context) error {
	_ = os.Remove(filepath.Join(n.dir, "dump.rdb"))
	n.command = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", n.args...)
	if err := n.command.Start(); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: n.address, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	return until(ctx, "redis-server answers", func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

func (n *privateNode) kill() {
	if n.command != nil && n.command.Process != nil && n.command.ProcessState == nil {
		_ = n.command.Process.Kill()
		_ = n.command.Wait()
	}
}

// url is how a worker names them.
func (r *privateRedises) url() string {
	return "sentinel://" + r.sentinel.address + "/" + sentinelMaster
}

// master is the node that the Sentinel takes for the master.
func (r *privateRedises) master(ctx context.Context) (*privateNode, error) {
	address, err := r.ask.GetMasterAddrByName(ctx, sentinelMaster).Result()
	if err != nil {
		return nil, fmt.Errorf("ask the Sentinel for the master: %w", err)
	}
	for _, node := range r.nodes {
		if node.address == net.JoinHostPort(address[0], address[1]) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the Sentinel names a stranger: %v", address)
}

// writable returns when the master takes writes.
func (r *privateRedises) writable(ctx context.Context) error {
	return until(ctx, "the master takes writes", func(ctx context.Context) error {
		return r.client.Set(ctx, "chaos:probe", "", time.Minute).Err()
	})
}

// whole returns when the master takes writes and the replica has them: a fail-over is possible then.
func (r *privateRedises) whole(ctx context.Context) error {
	if err := r.writable(ctx); err != nil {
		return err
	}
	return until(ctx, "the Sentinel sees a replica in order", func(ctx context.Context) error {
		replicas, err := r.ask.Replicas(ctx, sentinelMaster).Result()
		if err != nil {
			return err
		}
		for _, replica := range replicas {
			if replica["flags"] == "slave" && replica["master-link-status"] == "ok" {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// movedFrom returns when another node is the master and takes writes.
func (r *privateRedises) movedFrom(ctx context.Context, old *privateNode) error {
	err := until(ctx, "the Sentinel names another master", func(ctx context.Context) error {
		now, err := r.master(ctx)
		if err == nil && now == old {
			err = errors.New("it is still " + old.address)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.writable(ctx)
}

// follow makes a node the master's replica again. The Sentinel would, when it has seen it for ten seconds.
func (r *privateRedises) follow(ctx context.Context, node *privateNode) error {
	master, err := r.master(ctx)
	if err != nil || master == node {
		return err
	}
	host, port, _ := net.SplitHostPort(master.address)
	client := redis.NewClient(&redis.Options{Addr: node.address})
	defer func() { _ = client.Close() }()
	return client.ReplicaOf(ctx, host, port).Err()
}
