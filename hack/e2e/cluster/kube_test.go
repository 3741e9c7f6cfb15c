//go:build e2e

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// root is the project's folder, seen from this package's.
	root = "../../.."
	// The namespaces, all of them ours.
	namespace, sandboxNamespace, storesNamespace = "examprep-e2e", "examprep-e2e-sandbox", "examprep-e2e-stores"
	crdName                                      = "examcontents.examprep.dev"
)

// cluster is where the proofs run, and the tools that reach it.
type cluster struct {
	kube     kubernetes.Interface
	contract *crowdtest.Contract
	images   images
	stores   stores
	// node is an address of the cluster at which its node ports answer.
	node                     string
	helm, helm3, kubectlPath string
}

// connect finds cluster and tools, makes the namespaces empty, and takes everything away at the end.
func connect(t *testing.T) *cluster {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	check.NoErrorf(t, err, "KUBECONFIG")
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	check.NoError(t, err)
	c := &cluster{
		kube: kube, contract: crowdtest.NewContract(t), kubectlPath: findKubectl(t),
		helm: tool(t, "HELM", "helm.sh/helm/v4/cmd/helm"), helm3: tool(t, "HELM3", "helm.sh/helm/v3/cmd/helm"),
	}
	c.node = c.nodeAddress(t)
	c.images = buildImages(t)
	hadCRDs := c.has(t, "crd", crdName)
	c.remove(t)
	t.Cleanup(func() {
		if t.Failed() && *keep {
			t.Log("everything is left in the cluster; delete the namespaces examprep-e2e… when you are done")
			return
		}
		c.remove(t)
		if !hadCRDs {
			c.kubectl(t, "", "delete", "crd", "--ignore-not-found", "--timeout=60s",
				crdName, "webhookendpoints.examprep.dev", "ratetiers.examprep.dev")
		}
	})
	for _, name := range []string{namespace, sandboxNamespace, storesNamespace} {
		c.apply(t, "namespace.yaml", map[string]string{"NAMESPACE": name})
	}
	return c
}

func (c *cluster) nodeAddress(t *testing.T) string {
	t.Helper()
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == "InternalIP" {
				return address.Address
			}
		}
	}
	t.Fatal("no node has an address")
	return ""
}

// remove deletes the namespaces and waits until they are gone. Resources go first, without the finalizers that an
// operator would have to take off: it may be gone.
func (c *cluster) remove(t *testing.T) {
	t.Helper()
	for _, helm := range []struct{ release, namespace string }{{"examprep", namespace}, {"sandbox", sandboxNamespace}} {
		_, _ = c.run(t, "", c.helm, "uninstall", helm.release, "-n", helm.namespace, "--ignore-not-found", "--wait", "--timeout=2m")
		for _, kind := range []string{"examcontents", "webhookendpoints", "ratetiers"} {
			names, _ := c.run(t, "", c.kubectlPath, "get", kind+".examprep.dev", "-n", helm.namespace, "-o", "name")
			for name := range strings.FieldsSeq(names) {
				_, _ = c.run(t, "", c.kubectlPath, "patch", name, "-n", helm.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			}
		}
	}
	c.kubectl(t, "", "delete", "namespace", "--ignore-not-found", "--timeout=3m", namespace, sandboxNamespace, storesNamespace)
}

func (c *cluster) apply(t *testing.T, file string, values map[string]string) {
	t.Helper()
	c.kubectl(t, filled(t, file, values), "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// filled is a file of testdata with its ${NAMES} filled in.
func filled(t *testing.T, file string, values map[string]string) string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("testdata", file))
	return os.Expand(string(text), func(name string) string {
		value, known := values[name]
		if !known {
			t.Fatalf("testdata/%s: nothing fills ${%s}", file, name)
		}
		return value
	})
}

func (c *cluster) has(t *testing.T, kind, name string) bool {
	t.Helper()
	return strings.TrimSpace(c.kubectl(t, "", "get", kind, name, "--ignore-not-found", "-o", "name")) != ""
}

func (c *cluster) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	return c.must(t, input, c.kubectlPath, args...)
}

func (c *cluster) must(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	out, err := c.run(t, input, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return out
}

// run runs a command for at most ten minutes.
func (*cluster) run(t *testing.T, input, name string, args ...string) (string, error) {
	t.Helper()
	return crowdtest.Run(t, 10*time.Minute, nil, input, name, args...)
}

func findKubectl(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("KUBECTL"); named != "" {
		return named
	}
	path, err := exec.LookPath("kubectl")
	if err == nil {
		return path
	}
	path, err = filepath.Abs(filepath.Join(root, ".dev", "bin", "kubectl"))
	if err == nil {
		_, err = os.Stat(path)
	}
	check.NoErrorf(t, err, "no kubectl in KUBECTL, in PATH nor in .dev/bin")
	return path
}

// tool is the program that a variable names, else the one that hack/chart pins, built on first use.
func tool(t *testing.T, variable, pkg string) string {
	t.Helper()
	if named := os.Getenv(variable); named != "" {
		return named
	}
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "hack", "chart"), "tool", "-n", pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	check.NoErrorf(t, err, "build %s", pkg)
	return strings.TrimSpace(string(out))
}

// eventually waits until done holds, looking five times a second. It returns how long that took.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	return crowdtest.Eventually(t, limit, 200*time.Millisecond, what, done)
}

// pass lets time go by, while clients are at work.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// gone tells whether an error says that the object is not there.
func gone(err error) bool { return apierrors.IsNotFound(err) }
