package controllers

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/process"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

const (
	etcdServer     = "etcd"
	apiServer      = "kube-apiserver"
	postgresServer = testkit.PostgresProcess
)

// private is a control plane and a PostgreSQL of one test's own, which it may kill. Whatever dies is started again, on the
// same port and the same data, until the test ends.
type private struct {
	// config is an administrator's for the API server; kubeconfig is a file with the same settings.
	config     *rest.Config
	kubeconfig string
	// databaseURL is the URL of an empty database. Committed transactions survive a kill.
	databaseURL string

	*testkit.Supervised
}

func startPrivate(t *testing.T) *private {
	t.Helper()
	assets := testenv.Get(t, testenv.Assets)
	ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patience)
	defer cancel()
	p := &private{Supervised: testkit.Supervise(t)}
	plane, err := controlplane.Start(ctx, p.Supervisor, controlplane.Config{
		Binaries: assets, Dir: p.Dir, Throwaway: true, // the machine does not crash
		Etcd: testkit.FreeAddress(t), EtcdPeer: testkit.FreeAddress(t), APIServer: testkit.FreeAddress(t),
	})
	check.NoError(t, err)
	p.databaseURL, err = p.StartPostgres(ctx, testkit.FreeAddress(t))
	check.NoError(t, err)
	check.NoError(t, p.connect(plane))
	return p
}

func (p *private) connect(plane *controlplane.Plane) error {
	text, err := plane.Admin()
	if err != nil {
		return err
	}
	p.kubeconfig = filepath.Join(p.Dir, "kubeconfig")
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
	return p.Start(ctx, process.Spec{Name: name, Path: path, Args: args, Env: env})
}
