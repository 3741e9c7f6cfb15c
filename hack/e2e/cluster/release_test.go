//go:build e2e

package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const chart = root + "/charts/examprep"

// components are the Deployments of a release, by the value of their label app.kubernetes.io/component.
var components = []string{"api", "worker", "operator"}

type release struct {
	*cluster
	name, namespace, environment string
	// helm is the Helm that it is installed by.
	helm string
	// namespaceSecret and encryptionKeys outlive every re-install.
	namespaceSecret, encryptionKeys string
	api                             *crowdtest.API
	key                             string
}

func (c *cluster) release(name, namespace, environment, helm string) *release {
	secret := func() string {
		var random [32]byte
		_, _ = rand.Read(random[:])
		return base64.StdEncoding.EncodeToString(random[:])
	}
	return &release{
		cluster: c, name: name, namespace: namespace, environment: environment, helm: helm,
		namespaceSecret: secret(), encryptionKeys: "k1:" + secret(),
	}
}

// settle writes what the chart only names: the Secret of settings with these stores, and the receiver's authority.
func (r *release) settle(t *testing.T, database string, redisNumber int) {
	t.Helper()
	r.apply(t, "settings.yaml", map[string]string{
		"NAMESPACE": r.namespace, "DATABASE_URL": r.stores.databaseURL(database),
		"MISSPELT_DATABASE_URL": r.stores.databaseURL(database + "-misspelt"), "REDIS_URL": r.stores.redisURL(redisNumber),
		"NAMESPACE_SECRET": r.namespaceSecret, "ENCRYPTION_KEYS": r.encryptionKeys,
		"SIGNING_SECRET": r.stores.signingSecret, "AUTHORITY": quoted(t, r.stores.authority),
	})
}

// values writes the values file of an installation of an image.
func (r *release) values(t *testing.T, image string) string {
	t.Helper()
	at := strings.LastIndex(image, ":")
	path := filepath.Join(t.TempDir(), "values.yaml")
	text := filled(t, "values.yaml", map[string]string{
		"ENVIRONMENT": r.environment, "REPOSITORY": image[:at], "TAG": image[at+1:], "NAMESPACE": r.namespace,
		"RECEIVER_ADDRESSES": r.receiverAddresses(t), "STORES": storesNamespace,
	})
	testkit.WriteFile(t, path, []byte(text))
	return path
}

// receiverAddresses are the receiver's Service and pod, which only an administrator may let webhooks reach: they are
// private. A network policy sees the pod where the worker sees the Service.
func (c *cluster) receiverAddresses(t *testing.T) string {
	t.Helper()
	service, err := c.kube.CoreV1().Services(storesNamespace).Get(t.Context(), "receiver", metav1.GetOptions{})
	check.NoError(t, err)
	addresses := []string{service.Spec.ClusterIP + "/32"}
	for _, pod := range c.pods(t, storesNamespace, "app=receiver") {
		addresses = append(addresses, pod.Status.PodIP+"/32")
	}
	return strings.Join(addresses, ", ")
}

// upgrade installs or upgrades, and waits until everything is Ready.
func (r *release) upgrade(t *testing.T, image string, set ...string) {
	t.Helper()
	if out, err := r.tryUpgrade(t, image, set...); err != nil {
		t.Fatalf("helm upgrade: %v\n%s\n%s", err, out, r.state(t))
	}
}

// tryUpgrade is an upgrade that may fail.
func (r *release) tryUpgrade(t *testing.T, image string, set ...string) (string, error) {
	t.Helper()
	args := []string{"upgrade", "--install", r.name, chart, "-n", r.namespace, "-f", r.values(t, image), "--wait", "--timeout=5m"}
	for _, one := range set {
		args = append(args, "--set", one)
	}
	return r.run(t, "", r.helm, args...)
}

// state is what a person would look at when something went wrong.
func (r *release) state(t *testing.T) string {
	t.Helper()
	pods, _ := r.run(t, "", r.kubectlPath, "get", "pods,jobs,hpa", "-n", r.namespace, "-o", "wide")
	events, _ := r.run(t, "", r.kubectlPath, "get", "events", "-n", r.namespace, "--sort-by=.lastTimestamp")
	logs, _ := r.run(t, "", r.kubectlPath, "logs", "-n", r.namespace, "-l", r.selector(""), "--all-containers", "--prefix", "--tail=5")
	lines := strings.Split(strings.TrimSpace(events), "\n")
	return pods + "\n" + strings.Join(lines[max(0, len(lines)-15):], "\n") + "\n" + logs
}

// selector selects the release's objects, of one component or of all.
func (r *release) selector(component string) string {
	selector := "app.kubernetes.io/instance=" + r.name
	if component != "" {
		selector += ",app.kubernetes.io/component=" + component
	}
	return selector
}

func (r *release) reach(t *testing.T, key string) {
	t.Helper()
	r.key = key
	r.api = crowdtest.NewAPI(r.url(t), key, r.contract)
}

// url is where the interface is reached from outside the cluster.
func (r *release) url(t *testing.T) string {
	t.Helper()
	services, err := r.kube.CoreV1().Services(r.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: r.selector("api")})
	check.NoError(t, err)
	for _, service := range services.Items {
		if service.Spec.Type == corev1.ServiceTypeNodePort {
			return "http://" + r.nodePort(t, r.namespace, service.Name) + "/v1"
		}
	}
	t.Fatalf("release %s has no Service of type NodePort for its API", r.name)
	return ""
}

func (r *release) createKey(t *testing.T, account, tier string) string {
	t.Helper()
	var issued struct {
		Key string `json:"key"`
	}
	out := r.kubectl(t, "", "exec", "-n", r.namespace, "deployment/"+r.deployment(t, "api").Name, "--",
		"/examprep", "keys", "create", "--account", account, "--tier", tier, "-o", "json")
	testkit.Decode(t, []byte(out), &issued)
	return issued.Key
}

func (r *release) deployment(t *testing.T, component string) *appsv1.Deployment {
	t.Helper()
	found, err := r.kube.AppsV1().Deployments(r.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: r.selector(component)})
	check.NoError(t, err)
	if len(found.Items) != 1 {
		t.Fatalf("%d Deployments of %s", len(found.Items), component)
	}
	return &found.Items[0]
}

// pods are the pods that a selector finds and that are not on their way out.
func (c *cluster) pods(t *testing.T, namespace, selector string) []corev1.Pod {
	t.Helper()
	found, err := c.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	check.NoError(t, err)
	var alive []corev1.Pod
	for _, pod := range found.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			alive = append(alive, pod)
		}
	}
	return alive
}

// whole tells whether a component has all the pods that it should have, and all of them are Ready.
func (r *release) whole(t *testing.T, component string) bool {
	t.Helper()
	d := r.deployment(t, component)
	return d.Status.ObservedGeneration == d.Generation && d.Spec.Replicas != nil && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.ReadyReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
}

func (r *release) awaitWhole(t *testing.T, component string) time.Duration {
	t.Helper()
	return eventually(t, 3*time.Minute, component+" to be whole", func() bool { return r.whole(t, component) })
}

// recovers passes when the release serves, so that one failed proof does not take the others with it.
func (r *release) recovers(t *testing.T) {
	if r.api == nil {
		t.Fatal("nothing is installed")
	}
	for _, component := range components {
		r.awaitWhole(t, component)
	}
	check.NoError(t, r.list(t, r.api))
}

func (*release) list(t *testing.T, api *crowdtest.API) error {
	t.Helper()
	var exams []byte
	return api.Call(t.Context(), crowdtest.OpList, http.MethodGet, "/exam-prep/list", nil, &exams)
}
