package controllers

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
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/server/testkit"
)

// The names of a private's processes.
const (
	etcdServer     = "etcd"
	apiServer      = "kube-apiserver"
	postgresServer = "postgres"
)

// privateStart bounds the start of a private on a busy machine.
const privateStart = 5 * time.Minute

// private is a control plane and a PostgreSQL of one test's own, which it may kill. Whatever dies is started again, on the
// same port and the same data, until the test ends.
type private struct {
	// config is an administrator's way to the API server, kubeconfig the file that says the same.
	config     *rest.Config
	kubeconfig string
	// databaseURL is that of an empty database. What it has committed survives a kill.
	databaseURL string

	dir        string
	supervisor *process.Supervisor
}

// startPrivate starts one, with this project's CRDs, from the binaries in the folder KUBEBUILDER_ASSETS.
func startPrivate(t *testing.T) *private {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run the tests by `make test`")
	}
	ctx, cancel := context.WithTimeout(t.Context(), privateStart)
	defer cancel()
	p := &private{dir: temporary(t)}
	var err error
	if p.supervisor, err = process.New(filepath.Join(p.dir, "logs"), filepath.Join(p.dir, "pids"), t.Logf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.supervisor.Stop)
	plane, err := controlplane.Start(ctx, p.supervisor, controlplane.Config{
		Binaries: assets, Dir: p.dir, Throwaway: true, // the machine does not crash
		Etcd: testkit.FreeAddress(t), EtcdPeer: testkit.FreeAddress(t), APIServer: testkit.FreeAddress(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.databaseURL, err = servers.StartPostgres(ctx, p.supervisor, servers.PostgresConfig{
		Data: filepath.Join(p.dir, "postgres"), Address: testkit.FreeAddress(t), Password: "private", Database: "examprep",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.connect(plane); err != nil {
		t.Fatal(err)
	}
	return p
}

// temporary is a folder that PostgreSQL's user can enter, as it cannot t.TempDir().
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "examprep-private-") //nolint:usetesting // PostgreSQL's user cannot enter t.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (p *private) connect(plane *controlplane.Plane) error {
	text, err := plane.Admin()
	if err != nil {
		return err
	}
	p.kubeconfig = filepath.Join(p.dir, "kubeconfig")
	if err := os.WriteFile(p.kubeconfig, text, 0o600); err != nil {
		return err
	}
	if p.config, err = clientcmd.BuildConfigFromFlags("", p.kubeconfig); err != nil {
		return err
	}
	p.config.QPS = -1
	return clustertest.Install(p.config)
}

// run keeps a program of the test's running as well, in the environment of the test and env. It can be killed by name.
func (p *private) run(ctx context.Context, name, path string, args, env []string) error {
	return p.supervisor.Start(ctx, process.Spec{Name: name, Path: path, Args: args, Env: env})
}

// kill ends a process at once, as kill -9 does. It is started again.
func (p *private) kill(name string) error {
	raw, err := os.ReadFile(filepath.Join(p.dir, "pids", name+".pid"))
	if err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	if !slices.Contains(children(os.Getpid()), pid) {
		return fmt.Errorf("kill %s: it is down", name) // and its number may be somebody else's by now
	}
	// PostgreSQL does not start again before the last of its children is gone, which must not have the time to notice.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended by itself
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

// failed delivers what could not be repaired by starting a process again.
func (p *private) failed() <-chan error { return p.supervisor.Failed() }

// log is what a process has written in its last life.
func (p *private) log(name string) string {
	raw, err := os.ReadFile(filepath.Join(p.dir, "logs", name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// children are the processes that a process has started itself.
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
