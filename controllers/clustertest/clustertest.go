// Package clustertest gives tests a real kube-apiserver with this project's CRDs, and a namespace each.
//
// The server is the one whose kubeconfig file EXAMPREP_TEST_KUBECONFIG names (`make test` brings one up for all
// packages), else one of this test process's own, from the binaries in the folder KUBEBUILDER_ASSETS. It fails the
// test, never skips it, when there is neither.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
)

// Variable names the variable that holds the path of a shared API server's kubeconfig.
const Variable = "EXAMPREP_TEST_KUBECONFIG"

const (
	installTimeout = time.Minute
	deleteTimeout  = 30 * time.Second
	poll           = 50 * time.Millisecond
)

// cluster is the API server of this test process.
type cluster struct {
	once   sync.Once
	own    *envtest.Environment
	config *rest.Config
	err    error
}

var shared cluster //nolint:gochecknoglobals // one API server per test process; Main stops it

// Main runs the tests of a package that uses this one, and stops the API server if it started one:
//
//	func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	if shared.own != nil {
		if err := shared.own.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop API server:", err)
			code = 1
		}
	}
	return code
}

// Config returns an administrator's way to the API server, which has the CRDs.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(func() { shared.config, shared.err = shared.start() })
	if shared.err != nil {
		t.Fatalf("no API server to test against: %v (run the tests by `make test`)", shared.err)
	}
	return rest.CopyConfig(shared.config)
}

func (c *cluster) start() (*rest.Config, error) {
	config, err := c.connect()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, installCRDs(config)
}

func (c *cluster) connect() (*rest.Config, error) {
	if path := os.Getenv(Variable); path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Variable, err)
		}
		return config, nil
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, fmt.Errorf("neither %s nor KUBEBUILDER_ASSETS is set", Variable)
	}
	c.own = &envtest.Environment{}
	config, err := c.own.Start()
	if err != nil {
		return nil, fmt.Errorf("start API server: %w", err)
	}
	return config, nil
}

// Client returns a client that reads past every cache.
func Client(t testing.TB) client.Client {
	t.Helper()
	c, err := newClient(Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Namespace makes a namespace for this test. The API server of tests runs no namespace controller, so it is marked for
// deletion at the end and what is in it stays; names are never used again.
func Namespace(t testing.TB) string {
	t.Helper()
	c := Client(t)
	namespace := &corev1.Namespace{}
	namespace.GenerateName = "test-"
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
		defer cancel()
		if err := client.IgnoreNotFound(c.Delete(ctx, namespace)); err != nil {
			t.Errorf("delete namespace: %v", err)
		}
	})
	return namespace.Name
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := kuberuntime.NewScheme()
	for _, add := range []func(*kuberuntime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// installCRDs applies config/crd/bases and waits until the kinds are served. Several test processes may do so at once.
func installCRDs(config *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	c, err := newClient(config)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root(), "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("found no CRDs in config/crd/bases"))
	}
	for _, file := range files {
		if err := installCRD(ctx, c, file); err != nil {
			return fmt.Errorf("install %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func installCRD(ctx context.Context, c client.Client, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return err
	}
	unstructured.RemoveNestedField(crd.Object, "metadata", "creationTimestamp")
	apply := client.ApplyConfigurationFromUnstructured(crd.DeepCopy())
	if err := c.Apply(ctx, apply, client.FieldOwner("clustertest"), client.ForceOwnership); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		current := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), current); err != nil {
			return false, err
		}
		for _, condition := range current.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// root is the module's folder: two above this file's.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
