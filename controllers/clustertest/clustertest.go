// Package clustertest gives tests a real kube-apiserver with this project's CRDs, and a namespace each.
//
// The server is the one whose kubeconfig file EXAMPREP_TEST_KUBECONFIG names, else one of this test process's own, from the
// binaries in the folder KUBEBUILDER_ASSETS. Both variables come from the environment or from .dev/test.env (see testenv).
// It fails the test, never skips it, when there is neither.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// Variable names the variable that holds the path of a shared API server's kubeconfig.
const Variable = testenv.Kubeconfig

const (
	operatorUser = "examprep-test-operator"
	fieldOwner   = client.FieldOwner("clustertest")
	poll         = 50 * time.Millisecond
	startTimeout = 3 * testkit.Patience // envtest gives an API server 20 s to start and 20 s to stop
)

type cluster struct {
	once   sync.Once
	own    *envtest.Environment
	config *rest.Config
	err    error
}

var shared cluster //nolint:gochecknoglobals // one API server per test process; Main stops it

// Main runs the tests of a package that uses this one, and stops the API server if it started one:
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
func Main(m *testing.M) {
	m.Run() // the testing package leaves with its code once TestMain returns
	if shared.own == nil {
		return
	}
	if err := shared.own.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop API server:", err)
	}
}

// Config returns an administrator's way to the API server, which has the CRDs.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(func() { shared.config, shared.err = shared.start() })
	if shared.err != nil {
		t.Fatalf("no API server to test against: %v (make test-servers PKG=./controllers starts one)", shared.err)
	}
	return rest.CopyConfig(shared.config)
}

func (c *cluster) start() (*rest.Config, error) {
	config, err := c.connect()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, Install(config)
}

func (c *cluster) connect() (*rest.Config, error) {
	path, err := testenv.Lookup(Variable)
	if err == nil {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Variable, err)
		}
		return config, nil
	}
	binaries, missing := testenv.Lookup(testenv.Assets)
	if missing != nil {
		return nil, errors.Join(err, missing)
	}
	c.own = environment(binaries)
	config, err := c.own.Start()
	if err != nil {
		return nil, fmt.Errorf("start API server: %w", err)
	}
	return config, nil
}

func environment(binaries string) *envtest.Environment {
	return &envtest.Environment{BinaryAssetsDirectory: binaries, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout}
}

// OperatorConfig returns the operator's way to the API server: that of a user who holds the operator's generated role and
// nothing else, so that a right which the markers forget fails the tests.
func OperatorConfig(t testing.TB) *rest.Config {
	t.Helper()
	config := Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	return config
}

// Client returns a client that reads past every cache.
func Client(t testing.TB) client.Client {
	t.Helper()
	c, err := newClient(Config(t))
	check.NoError(t, err)
	return c
}

// Namespace makes a namespace for this test. The API server of tests runs no namespace controller, so it is marked for
// deletion at the end and what is in it stays; names are never used again.
func Namespace(t testing.TB) string {
	t.Helper()
	c := Client(t)
	namespace := &corev1.Namespace{}
	namespace.GenerateName = "test-"
	check.NoErrorf(t, c.Create(t.Context(), namespace), "create namespace")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		check.Succeeds(t, client.IgnoreNotFound(c.Delete(ctx, namespace)), "delete namespace")
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

// Install applies config/crd/bases and the operator's role, and waits until the kinds are served. Several test processes
// may do so at once.
func Install(config *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	c, err := newClient(config)
	if err != nil {
		return err
	}
	if err := installCRDs(ctx, c, "config/crd/bases"); err != nil {
		return err
	}
	role, err := apply(ctx, c, filepath.Join(root(), "config", "rbac", "role.yaml"))
	if err != nil {
		return fmt.Errorf("install the operator's role: %w", err)
	}
	binding := rbacv1ac.ClusterRoleBinding(operatorUser).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role.GetName())).
		WithSubjects(rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName(operatorUser))
	if err := c.Apply(ctx, binding, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("bind the operator's role: %w", err)
	}
	return nil
}

func apply(ctx context.Context, c client.Client, file string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		return nil, err
	}
	return object, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), fieldOwner, client.ForceOwnership)
}

func established(ctx context.Context, c client.Client, crd string) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		current := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: crd}, current); err != nil {
			return false, err
		}
		return slices.ContainsFunc(current.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}), nil
	})
}

// root returns the module's folder: the one above the working directory, else two above this file's, which is unknown in a
// program that was built with -trimpath.
func root() string {
	if dir, err := testenv.Root(); err == nil {
		return dir
	}
	_, file, _, _ := runtime.Caller(0) //nolint:dogsled // the file is all there is to know
	return filepath.Join(filepath.Dir(file), "..", "..")
}
