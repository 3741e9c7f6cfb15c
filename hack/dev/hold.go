package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
)

// group is a set of servers for tests that one holder starts and stops.
type group string

const (
	stores  group = "stores"  // PostgreSQL and Redis
	cluster group = "cluster" // etcd and kube-apiserver
)

// groupDir returns the state directory of a group.
func groupDir(dev state.Dir, g group) state.Dir { return state.Dir(dev.Path("test", string(g))) }

// Files in the state directory of a group.
const (
	readyFile   = "ready"   // the process id of the holder whose servers answer
	failureFile = "failure" // why the last holder ended by itself
	cleanFile   = "clean"   // exists if the last holder stopped its servers in order
)

// presencePoll is how often a holder checks that its files still exist.
const presencePoll = time.Second

// holder owns the servers of a group.
type holder struct {
	root       string
	dir        state.Dir
	console    *console
	ports      *state.Ports
	supervisor *process.Supervisor
}

// hold starts the servers of a group and keeps them until ctx ends, one of them dies, or their files are deleted. It never
// restarts a server: tests that used it have failed, and the run must say why.
func hold(ctx context.Context, root string, g group, args []string, c *console) error {
	h := &holder{root: root, dir: groupDir(state.Dir(filepath.Join(root, ".dev")), g), console: c}
	release, err := h.dir.Hold()
	if err != nil {
		return err
	}
	defer release()
	for _, file := range []string{readyFile, failureFile} {
		if err := os.Remove(h.dir.Path(file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove a file of the last holder: %w", err)
		}
	}
	if h.ports, err = h.dir.OpenPorts(); err != nil {
		return err
	}
	if h.supervisor, err = process.New(h.dir.Path("log"), h.dir.Path("pids"), c.sayf); err != nil {
		return err
	}
	defer h.supervisor.Stop()
	err = h.run(ctx, g, args)
	switch {
	case err != nil && ctx.Err() == nil:
		return errors.Join(err, h.dir.WriteFile(failureFile, []byte(err.Error()+"\n"), 0o644), h.forgetReady())
	case err != nil || !h.present(nil): // stopped before all was ready, or nothing is left to remember it in
		return nil
	}
	if err := h.forgetReady(); err != nil {
		return err
	}
	h.supervisor.Stop()
	return h.dir.WriteFile(cleanFile, nil, 0o644)
}

func (h *holder) forgetReady() error {
	if err := os.Remove(h.dir.Path(readyFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", readyFile, err)
	}
	return nil
}

// run starts the servers, reports them ready, and returns nil when ctx ends or the state directory is deleted.
func (h *holder) run(ctx context.Context, g group, args []string) error {
	_, err := os.Stat(h.dir.Path(cleanFile))
	clean := err == nil
	if err := os.Remove(h.dir.Path(cleanFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", cleanFile, err)
	}
	var variables []state.Variable
	switch {
	case g == stores && len(args) == 0:
		variables, err = h.startStores(ctx, clean)
	case g == cluster && len(args) == 1:
		variables, err = h.startCluster(ctx, args[0])
	default:
		return fmt.Errorf("dev hold %s takes other arguments than %q", g, args)
	}
	if err != nil {
		return err
	}
	var data []string // folders that must continue to exist
	for _, name := range []string{"postgres", "redis", "kubernetes"} {
		if _, err := os.Stat(h.dir.Path(name)); err == nil {
			data = append(data, name)
		}
	}
	if err := h.dir.WriteEnv(state.EnvFile, variables); err != nil {
		return err
	}
	if err := h.dir.WriteFile(readyFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	return h.watch(ctx, data)
}

// watch returns nil when ctx ends or the state directory is deleted, and an error when a server dies or its data are
// deleted.
func (h *holder) watch(ctx context.Context, data []string) error {
	ticker := time.NewTicker(presencePoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-h.supervisor.Failed():
			return err
		case <-ticker.C:
			switch {
			case !h.present(nil):
				return nil
			case !h.present(data):
				return fmt.Errorf("one of %s in %s was deleted", strings.Join(data, ", "), h.dir)
			}
		}
	}
}

// present reports whether the state directory is still this holder's, and whether the data in it exist.
func (h *holder) present(data []string) bool {
	if readyHolder(h.dir) != os.Getpid() {
		return false
	}
	for _, name := range data {
		if _, err := os.Stat(h.dir.Path(name)); err != nil {
			return false
		}
	}
	return true
}

// readyHolder returns the process id of the holder whose servers answered, 0 if there is none.
func readyHolder(dir state.Dir) int {
	text, err := os.ReadFile(dir.Path(readyFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// startStores starts PostgreSQL and Redis at the addresses, and with the passwords, that they had before. PostgreSQL's data
// are deleted unless it was stopped in order: it writes without fsync.
func (h *holder) startStores(ctx context.Context, clean bool) ([]state.Variable, error) {
	postgres := servers.PostgresConfig{Data: h.dir.Path("postgres"), Database: "postgres", Throwaway: true, Final: true}
	redis := servers.RedisConfig{Data: h.dir.Path("redis"), Throwaway: true, Final: true}
	for _, seat := range []struct {
		name              string
		address, password *string
	}{{"postgres", &postgres.Address, &postgres.Password}, {"redis", &redis.Address, &redis.Password}} {
		var err error
		if *seat.address, err = h.ports.Address(ctx, seat.name); err != nil {
			return nil, err
		}
		if *seat.password, err = h.dir.Secret(seat.name, func() string { return state.RandomHex(16) }); err != nil {
			return nil, err
		}
	}
	if !clean {
		if err := servers.RemovePostgres(postgres.Data); err != nil {
			return nil, err
		}
	}
	var databaseURL, redisURL string
	starts, ctx := errgroup.WithContext(ctx)
	starts.Go(func() (err error) {
		databaseURL, err = servers.StartPostgres(ctx, h.supervisor, postgres)
		return err
	})
	starts.Go(func() (err error) {
		redisURL, err = servers.StartRedis(ctx, h.supervisor, redis)
		return err
	})
	if err := starts.Wait(); err != nil {
		return nil, err
	}
	return []state.Variable{{Name: testDatabase, Value: databaseURL}, {Name: testRedis, Value: redisURL}}, nil
}

// startCluster starts an API server with nothing but the project's CRDs.
func (h *holder) startCluster(ctx context.Context, binaries string) ([]state.Variable, error) {
	cfg := controlplane.Config{Binaries: binaries, Dir: h.dir.Path("kubernetes"), Throwaway: true, Final: true}
	for name, address := range map[string]*string{"etcd": &cfg.Etcd, "etcd-peer": &cfg.EtcdPeer, "kube-apiserver": &cfg.APIServer} {
		var err error
		if *address, err = h.ports.Address(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "etcd")); err != nil {
		return nil, fmt.Errorf("remove what earlier tests left in etcd: %w", err)
	}
	plane, err := controlplane.Start(ctx, h.supervisor, cfg)
	if err != nil {
		return nil, err
	}
	kubeconfig := h.dir.Path("kubeconfig")
	kubectl := func(args ...string) error {
		_, err := output(ctx, nil, "", filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		return err
	}
	// The last holder's file is kept if it still opens the server: Go's test cache knows it by its modification time.
	if kubectl("get", "--raw", "/readyz") != nil {
		admin, err := plane.Admin()
		if err != nil {
			return nil, err
		}
		if err := h.dir.WriteFile("kubeconfig", admin, 0o600); err != nil {
			return nil, err
		}
	}
	if err := kubectl(applyArgs(h.root, "config/crd")...); err != nil {
		return nil, err
	}
	return []state.Variable{{Name: testKubeconfig, Value: kubeconfig}, {Name: assets, Value: binaries}}, nil
}
