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
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
	"examprep.dev/hack/npm"
)

const (
	// startPoll is how often a starter checks whether the holder is ready.
	startPoll = 20 * time.Millisecond
	// watchPoll is how often a run checks that its servers still run.
	watchPoll = 250 * time.Millisecond
)

// testServers finds or starts the servers that tests use.
type testServers struct {
	root    string
	dev     state.Dir
	console *console

	mu   sync.Mutex
	used map[group]int // process ids of the holders
}

func newTestServers(root string, c *console) *testServers {
	return &testServers{root: root, dev: state.Dir(filepath.Join(root, ".dev")), console: c, used: map[group]int{}}
}

// ensure starts what n names and the environment does not, and returns the variables of all of it. It remembers them in
// .dev/test.env, which tests read where a variable is not set.
func (t *testServers) ensure(ctx context.Context, n needs) ([]state.Variable, error) {
	if err := servers.Require(n.programs()...); err != nil {
		return nil, err
	}
	var found [3][]state.Variable
	starts, starting := errgroup.WithContext(ctx)
	if !given(testDatabase, testRedis) {
		starts.Go(func() (err error) {
			found[0], err = t.start(starting, stores, func(context.Context) ([]string, error) { return nil, nil })
			return err
		})
	}
	if n.cluster || n.binaries {
		starts.Go(func() (err error) {
			found[1], err = t.ensureCluster(starting, n)
			return err
		})
	}
	if n.npm && !given(testNPM) {
		starts.Go(func() error {
			dir, err := npm.Install(starting, t.console)
			found[2] = []state.Variable{{Name: testNPM, Value: string(dir)}}
			return err
		})
	}
	if err := starts.Wait(); err != nil {
		return nil, err
	}
	var variables []state.Variable
	for _, part := range found {
		for _, v := range part {
			if !given(v.Name) {
				variables = append(variables, v)
			}
		}
	}
	return variables, t.remember(ctx, variables)
}

// given reports whether the environment names all of it.
func given(variables ...string) bool {
	return !slices.ContainsFunc(variables, func(name string) bool { return os.Getenv(name) == "" })
}

// ensureCluster starts an API server, or only finds the programs for tests that start one themselves.
func (t *testServers) ensureCluster(ctx context.Context, n needs) ([]state.Variable, error) {
	if n.cluster && !given(testKubeconfig) {
		return t.start(ctx, cluster, t.binaries)
	}
	dir, err := t.binaries(ctx)
	return []state.Variable{{Name: assets, Value: dir[0]}}, err
}

// binaries obtains kube-apiserver, etcd and kubectl, or checks the folder KUBEBUILDER_ASSETS, and returns the folder.
func (t *testServers) binaries(ctx context.Context) ([]string, error) {
	dir, err := obtainControlPlane(ctx, t.root, t.dev, t.console)
	return []string{dir}, err
}

// remember updates variables in .dev/test.env.
func (t *testServers) remember(ctx context.Context, variables []state.Variable) error {
	unlock, err := t.dev.Lock(ctx, "test.env.lock", func() {})
	if err != nil {
		return err
	}
	defer unlock()
	known, err := t.dev.ReadEnv(state.TestEnvFile)
	if err != nil {
		return err
	}
	for _, v := range variables {
		known[v.Name] = v.Value
	}
	var all []state.Variable
	for _, name := range []string{testDatabase, testRedis, testKubeconfig, assets, testNPM} {
		if known[name] != "" {
			all = append(all, state.Variable{Name: name, Value: known[name]})
		}
	}
	return t.dev.WriteEnv(state.TestEnvFile, all)
}

// start returns the variables of a group's servers. It starts a holder unless one has them ready. prepare returns more
// arguments of the holder. If several processes start a group at once, one does and the others wait for it.
func (t *testServers) start(ctx context.Context, g group, prepare func(context.Context) ([]string, error)) ([]state.Variable, error) {
	dir := groupDir(t.dev, g)
	unlock, err := dir.Lock(ctx, "start.lock", func() { t.console.sayf("another run starts the %s for tests; waiting for it", g) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	pid, err := runningHolder(dir)
	if err == nil && pid == 0 {
		pid, err = t.replace(ctx, g, dir, prepare)
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.used[g] = pid
	t.mu.Unlock()
	known, err := dir.ReadEnv(state.EnvFile)
	if err != nil {
		return nil, err
	}
	variables := make([]state.Variable, 0, len(known))
	for name, value := range known {
		variables = append(variables, state.Variable{Name: name, Value: value})
	}
	return variables, nil
}

// runningHolder returns the process id of the holder that has the servers ready, 0 if there is none.
func runningHolder(dir state.Dir) (int, error) {
	pid, err := dir.Holder()
	if err != nil || pid == 0 || pid != readyHolder(dir) {
		return 0, err
	}
	return pid, nil
}

// replace stops a holder that is not ready, starts another as a process that outlives this one, and waits until its
// servers answer.
func (t *testServers) replace(ctx context.Context, g group, dir state.Dir, prepare func(context.Context) ([]string, error)) (int, error) {
	if _, err := dir.StopHolder(ctx); err != nil {
		return 0, err
	}
	args, err := prepare(ctx)
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	log, err := os.Create(dir.Path("hold.log"))
	if err != nil {
		return 0, fmt.Errorf("make a log: %w", err)
	}
	defer log.Close()
	t.console.sayf("starting the %s for tests; make dev-down stops them", g)
	cmd := exec.Command(self, append([]string{"hold", string(g)}, args...)...) //nolint:noctx // it outlives this process
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.root, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the holder of the servers: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // until the holder or this process ends
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return 0, fmt.Errorf("start the %s for tests: %w\n%s", g, errors.Join(err, errors.New("see "+log.Name())), failure(dir))
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return 0, context.Cause(ctx)
		case <-ticker.C:
			if pid, err := runningHolder(dir); err != nil || pid == cmd.Process.Pid {
				return pid, err
			}
		}
	}
}

// failure returns why the last holder ended by itself.
func failure(dir state.Dir) string {
	text, err := os.ReadFile(dir.Path(failureFile))
	if err != nil {
		return "the servers were stopped"
	}
	return strings.TrimSpace(string(text))
}

// lostError reports that servers ended while tests used them.
type lostError struct{ reason string }

func (e *lostError) Error() string { return "the tests lost their servers: " + e.reason }

// lost returns an error if one of the servers in use has ended.
func (t *testServers) lost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for g, pid := range t.used {
		if now, err := runningHolder(groupDir(t.dev, g)); err != nil || now != pid {
			return errors.Join(&lostError{reason: failure(groupDir(t.dev, g))}, err)
		}
	}
	return nil
}

// watch returns an error as soon as one of the servers in use has ended, nil when ctx ends.
func (t *testServers) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := t.lost(); err != nil {
				return err
			}
		}
	}
}
