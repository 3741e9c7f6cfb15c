package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
)

const (
	processOperator  = "operator"
	processAPIServer = "kube-apiserver"
	processEtcd      = "etcd"
	// operatorNamespace and operatorAccount name the operator's service account, as in config/default.
	operatorNamespace, operatorAccount = "examprep-system", "examprep-operator"
	// etcdQuota lets 10,000 resources be written three times before anything is compacted.
	etcdQuota = 8 << 30
)

// cluster is a control plane, a PostgreSQL that counts statements, and the operator: all of its own, so that what one
// size leaves behind costs the next nothing.
type cluster struct {
	*stack

	// name tells it from others that run at the same time.
	name       string
	prepared   map[int][]applied // what is declared of exams, by number
	dir        state.Dir
	supervisor *process.Supervisor
	operating  *process.Supervisor // of the operator alone, which is stopped and started; nil while it is stopped
	plane      *controlplane.Plane
	// admin asks the API server as its administrator.
	admin   *http.Client
	address string // of the API server, with scheme
	// database is the operator's; statistics is another of the same PostgreSQL, for asking what the former was asked.
	database, statistics string
}

// openCluster starts the control plane and PostgreSQL, and installs what config/ declares. Close what it returns.
func (s *stack) openCluster(ctx context.Context, name string) (*cluster, error) {
	c := &cluster{stack: s, name: name, dir: state.Dir(s.dir.Path(name))}
	if err := c.open(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(string(c.dir), 0o755); err != nil { // PostgreSQL may run as another user
		return fmt.Errorf("make a directory: %w", err)
	}
	if c.supervisor, err = process.New(c.dir.Path("log"), c.dir.Path("pids"), c.say); err != nil {
		return err
	}
	binaries, err := c.obtainControlPlane(ctx)
	if err != nil {
		return err
	}
	if err := c.startPlane(ctx, binaries); err != nil {
		return err
	}
	if err := c.install(ctx, filepath.Join(binaries, "kubectl")); err != nil {
		return err
	}
	return c.startDatabase(ctx)
}

// close stops everything and removes what it wrote.
func (c *cluster) close() {
	c.stopOperator()
	if c.supervisor != nil {
		c.supervisor.Stop()
	}
	_ = os.RemoveAll(string(c.dir))
}

// obtainControlPlane returns the folder of kube-apiserver, etcd and kubectl from hack/kubernetes.
func (c *cluster) obtainControlPlane(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", "-buildvcs=false", ".")
	cmd.Dir = filepath.Join(c.root, "hack", "kubernetes")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stderr = os.Stderr
	found, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("obtain kube-apiserver, etcd and kubectl: %w", err)
	}
	return strings.TrimSpace(string(found)), nil
}

func (c *cluster) startPlane(ctx context.Context, binaries string) error {
	cfg := controlplane.Config{Binaries: binaries, Dir: c.dir.Path("kubernetes"), EtcdQuota: etcdQuota}
	for name, address := range map[string]*string{"etcd": &cfg.Etcd, "etcd-peer": &cfg.EtcdPeer, "kube-apiserver": &cfg.APIServer} {
		var err error
		if *address, err = c.ports.Address(ctx, c.name+"-"+name); err != nil {
			return err
		}
	}
	c.say("starting kube-apiserver and etcd")
	var err error
	if c.plane, err = controlplane.Start(ctx, c.supervisor, cfg); err != nil {
		return err
	}
	admin, err := c.plane.Admin()
	if err != nil {
		return err
	}
	if err := c.dir.WriteFile("admin.kubeconfig", admin, 0o600); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return fmt.Errorf("read a kubeconfig: %w", err)
	}
	c.address = config.Host
	c.admin, err = rest.HTTPClientFor(config)
	return err
}

// install applies the CRDs and what the operator's account may do.
func (c *cluster) install(ctx context.Context, kubectl string) error {
	config := func(path ...string) string { return filepath.Join(append([]string{c.root, "config"}, path...)...) }
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", config("crd")},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
		{"apply", "--server-side", "-f", config("default", "namespace.yaml")},
		{"apply", "--server-side", "-k", config("rbac"), "-n", operatorNamespace},
		{"create", "namespace", contentNamespace},
	} {
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", c.dir.Path("admin.kubeconfig")}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	account, err := c.plane.ServiceAccount(operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	return c.dir.WriteFile("operator.kubeconfig", account, 0o600)
}

func (c *cluster) startDatabase(ctx context.Context) error {
	address, err := c.ports.Address(ctx, c.name+"-postgres")
	if err != nil {
		return err
	}
	cfg := servers.PostgresConfig{
		Data: c.dir.Path("postgres"), Address: address, Password: state.RandomHex(16), Database: "statistics",
		Settings: []string{"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=top"},
	}
	if c.statistics, err = servers.StartPostgres(ctx, c.supervisor, cfg); err != nil {
		return err
	}
	for _, statement := range []string{"CREATE EXTENSION pg_stat_statements", "CREATE DATABASE operator"} {
		if err := c.ask(ctx, statement); err != nil {
			return err
		}
	}
	c.database = strings.Replace(c.statistics, "/statistics", "/operator", 1)
	return c.program(c.database).migrate(ctx)
}

// startOperator runs `examprep operator`, as the one replica of a Deployment, and returns when it is ready: when it has
// listed all resources.
func (c *cluster) startOperator(ctx context.Context, more ...string) (err error) {
	if c.operating, err = process.New(c.dir.Path("log"), c.dir.Path("pids"), c.say); err != nil {
		return err
	}
	settings := append([]string{
		"DATABASE_URL=" + c.database,
		"KUBECONFIG=" + c.dir.Path("operator.kubeconfig"), "EXAMPREP_LEADER_NAMESPACE=" + operatorNamespace, "EXAMPREP_PPROF=true",
	}, more...)
	err = c.startUnder(ctx, c.operating, processOperator, "operator", settings...)
	return err
}

// stopOperator ends the operator as a Deployment does, with SIGTERM.
func (c *cluster) stopOperator() {
	if c.operating != nil {
		c.operating.Stop()
		c.operating = nil
	}
}

// pid is of a process that was started under that name.
func (c *cluster) pid(name string) (int, error) {
	text, err := os.ReadFile(c.dir.Path("pids", name+".pid"))
	if err != nil {
		return 0, fmt.Errorf("find process %s: %w", name, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// watchAll starts a watch on everything that takes part, the operator included if it runs, and on this process.
func (c *cluster) watchAll() (*watch, error) {
	names := []string{processAPIServer, processEtcd, processPostgres}
	if c.operating != nil {
		names = append([]string{processOperator}, names...)
	}
	list := []watched{}
	for _, name := range names {
		pid, err := c.pid(name)
		if err != nil {
			return nil, err
		}
		list = append(list, watched{name: name, pid: pid, tree: name == processPostgres})
	}
	return startWatch(append(list, watched{name: processClient, pid: os.Getpid()})...)
}

// get asks the API server as its administrator.
func (c *cluster) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.admin.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = &statusError{response.StatusCode, string(body)}
	}
	return body, err
}
