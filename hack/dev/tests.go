package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
	"examprep.dev/hack/npm"
)

// Variables that tell tests where the servers and the packages of hack/npm are. Those that are set already are kept, and
// nothing is started or installed for them.
const (
	testDatabase   = "EXAMPREP_TEST_DATABASE_URL"
	testRedis      = "EXAMPREP_TEST_REDIS_URL"
	testKubeconfig = "EXAMPREP_TEST_KUBECONFIG"
	testNPM        = "EXAMPREP_TEST_NPM"
	assets         = "KUBEBUILDER_ASSETS"
)

// runTests runs a command beside throw-away servers and takes them down when it ends, however it ends.
func runTests(ctx context.Context, root string, command []string, c *console) (err error) {
	scratch, err := os.MkdirTemp("", "examprep-test-")
	if err != nil {
		return fmt.Errorf("make a directory for the servers of tests: %w", err)
	}
	defer os.RemoveAll(scratch)
	if err := os.Chmod(scratch, 0o755); err != nil { // PostgreSQL may run as another user
		return fmt.Errorf("make a directory for the servers of tests: %w", err)
	}
	t := &testServers{root: root, dir: state.Dir(scratch), console: c}
	if t.ports, err = t.dir.OpenPorts(); err != nil {
		return err
	}
	if t.supervisor, err = process.New(t.dir.Path("log"), t.dir.Path("pids"), c.sayf); err != nil {
		return err
	}
	defer t.supervisor.Stop()
	variables, err := t.start(ctx, command)
	if err != nil {
		return err
	}
	c.sayf("%s", strings.Join(command, " "))
	return runCommand(ctx, root, command, variables)
}

// testServers are the servers of one run of tests.
type testServers struct {
	root       string
	dir        state.Dir
	console    *console
	ports      *state.Ports
	supervisor *process.Supervisor
}

// start runs what is not given and returns the variables that name all of it.
func (t *testServers) start(ctx context.Context, command []string) ([]string, error) {
	needs, database, redis, cluster := t.needs(command)
	if err := servers.Install(ctx, t.console, needs...); err != nil {
		return nil, err
	}
	var databaseURL, redisURL, packages string
	var clusterVariables []string
	group, ctx := errgroup.WithContext(ctx)
	if database {
		address, err := t.ports.Address(ctx, "postgres")
		if err != nil {
			return nil, err
		}
		group.Go(func() (err error) {
			cfg := servers.PostgresConfig{Data: t.dir.Path("postgres"), Address: address, Password: state.RandomHex(16), Database: "postgres", Throwaway: true}
			databaseURL, err = servers.StartPostgres(ctx, t.supervisor, cfg)
			return err
		})
	}
	if redis {
		address, err := t.ports.Address(ctx, "redis")
		if err != nil {
			return nil, err
		}
		group.Go(func() (err error) {
			cfg := servers.RedisConfig{Data: t.dir.Path("redis"), Address: address, Password: state.RandomHex(16), Throwaway: true}
			redisURL, err = servers.StartRedis(ctx, t.supervisor, cfg)
			return err
		})
	}
	if cluster {
		cfg := controlplane.Config{Dir: t.dir.Path("kubernetes"), Throwaway: true}
		for name, address := range map[string]*string{"etcd": &cfg.Etcd, "etcd-peer": &cfg.EtcdPeer, "kube-apiserver": &cfg.APIServer} {
			var err error
			if *address, err = t.ports.Address(ctx, name); err != nil {
				return nil, err
			}
		}
		group.Go(func() (err error) {
			clusterVariables, err = t.startCluster(ctx, cfg)
			return err
		})
	}
	if os.Getenv(testNPM) == "" && usesNPM(ctx, t.root, command) {
		group.Go(func() error {
			dir, err := npm.Install(ctx, t.console)
			packages = string(dir)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	variables := clusterVariables
	if packages != "" {
		variables = append(variables, testNPM+"="+packages)
	}
	if database {
		variables = append(variables, testDatabase+"="+databaseURL)
	}
	if redis {
		variables = append(variables, testRedis+"="+redisURL)
	}
	return variables, nil
}

// needs tells which servers are not given, and what must be installed for them and for the command.
func (t *testServers) needs(command []string) (needs []servers.Need, database, redis, cluster bool) {
	needs = append(needs, servers.SSHKeygen(), servers.OpenSSL()) // tests run them as users do
	if database = os.Getenv(testDatabase) == ""; database {
		needs = append(needs, servers.Postgres())
	}
	if redis = os.Getenv(testRedis) == ""; redis {
		needs = append(needs, servers.Redis())
	}
	if slices.Contains(command, "-race") {
		needs = append(needs, servers.Compiler())
	}
	return needs, database, redis, os.Getenv(testKubeconfig) == ""
}

// startCluster brings up an API server with the project's CRDs.
func (t *testServers) startCluster(ctx context.Context, cfg controlplane.Config) ([]string, error) {
	binaries, err := obtainControlPlane(ctx, t.root, t.dir, t.console)
	if err != nil {
		return nil, err
	}
	cfg.Binaries = binaries
	plane, err := controlplane.Start(ctx, t.supervisor, cfg)
	if err != nil {
		return nil, err
	}
	admin, err := plane.Admin()
	if err != nil {
		return nil, err
	}
	if err := t.dir.WriteFile("kubeconfig", admin, 0o600); err != nil {
		return nil, err
	}
	kubeconfig := t.dir.Path("kubeconfig")
	args := append([]string{"--kubeconfig", kubeconfig}, applyArgs(t.root, "config/crd")...)
	if _, err := output(ctx, nil, "", filepath.Join(binaries, "kubectl"), args...); err != nil {
		return nil, err
	}
	return []string{assets + "=" + binaries, testKubeconfig + "=" + kubeconfig}, nil
}

// runCommand runs the command with our output. Interrupted, its whole group is, and has time to clean up.
func runCommand(ctx context.Context, root string, command, variables []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left
		return errors.New("interrupted")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return &statusError{status: exit.ExitCode()}
	}
	return err
}

// statusError is the end of a command that ran and failed; its status becomes ours.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }
