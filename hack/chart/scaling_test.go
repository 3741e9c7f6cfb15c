package chart_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterVariable names the kubeconfig of a real API server; make chart brings one up.
const clusterVariable = "EXAMPREP_TEST_KUBECONFIG"

// scaled is a release on a real API server beside which no controller runs: replicas are what was asked for.
type scaled struct {
	t               *testing.T
	kube            clientset.Interface
	helm, namespace string
}

func newScaled(t *testing.T, helm string) *scaled {
	t.Helper()
	kubeconfig := os.Getenv(clusterVariable)
	if kubeconfig == "" {
		t.Skip(clusterVariable + " is not set: make chart sets it")
	}
	cluster, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	noError(t, err)
	kube, err := clientset.NewForConfig(cluster)
	noError(t, err)
	made, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "chart-"}}, metav1.CreateOptions{})
	noError(t, err)
	r := &scaled{t: t, kube: kube, helm: program(t, ".", helms[helm]), namespace: made.Name}
	t.Cleanup(func() { // without a controller, a namespace never goes; what is in it does
		_, _ = command(t, nil, r.helm, "uninstall", "r", "--namespace", r.namespace, "--kubeconfig", kubeconfig, "--no-hooks")
	})
	return r
}

// upgrade installs or upgrades with some values and returns how many API pods are asked for then.
func (r *scaled) upgrade(set string) int32 {
	r.t.Helper()
	_, err := command(r.t, nil, r.helm, "upgrade", "--install", "r", folder, "--namespace", r.namespace, "--no-hooks",
		"--kubeconfig", os.Getenv(clusterVariable), "--set", "crds.install=false,networkPolicy.enabled=false,worker.enabled=false,operator.enabled=false,"+set)
	noError(r.t, err)
	live, err := r.kube.AppsV1().Deployments(r.namespace).Get(r.t.Context(), "r-examprep-api", metav1.GetOptions{})
	noError(r.t, err)
	return *live.Spec.Replicas
}

// scale asks for a number of API pods as an autoscaler does.
func (r *scaled) scale(replicas int32) {
	r.t.Helper()
	deployments := r.kube.AppsV1().Deployments(r.namespace)
	scale, err := deployments.GetScale(r.t.Context(), "r-examprep-api", metav1.GetOptions{})
	noError(r.t, err)
	scale.Spec.Replicas = replicas
	if _, err := deployments.UpdateScale(r.t.Context(), "r-examprep-api", scale, metav1.UpdateOptions{FieldManager: "kube-controller-manager"}); err != nil {
		r.t.Fatal(err)
	}
}

func TestAnUpgradeWithAutoscalingKeepsTheNumberOfPods(t *testing.T) {
	const on = "api.autoscaling.enabled=true"
	for helm := range helms {
		t.Run(helm, func(t *testing.T) {
			r := newScaled(t, helm)
			for _, step := range []struct {
				name string
				// scaleTo is what the API is scaled to before the upgrade; 0: nothing does.
				scaleTo int32
				set     string
				want    int32
			}{
				{"an installation without autoscaling", 0, "api.replicas=3", 3},
				{"switching it on", 0, on, 3},
				{"again, before the autoscaler did anything", 0, on + ",logLevel=debug", 3},
				{"again, after it did", 7, on, 7},
				{"once more", 0, on + ",logLevel=debug", 7},
				{"switching it off", 2, "api.replicas=2", 2},
				{"switching it on where somebody had scaled by hand", 6, on, 6},
				{"and again", 0, on + ",logLevel=debug", 6},
			} {
				if step.scaleTo > 0 {
					r.scale(step.scaleTo)
				}
				if got := r.upgrade(step.set); got != step.want {
					t.Errorf("%s: %d API pods are asked for, want %d", step.name, got, step.want)
				}
			}
		})
	}
}

// What an autoscaler alone has counted is no concern of a manifest: a roll-back to it would bring an old count back.
func TestAReleaseThatAutoscalesFromTheBeginningNeverSaysHowManyPods(t *testing.T) {
	const on = "api.autoscaling.enabled=true"
	for helm := range helms {
		t.Run(helm, func(t *testing.T) {
			r := newScaled(t, helm)
			r.upgrade(on)
			r.scale(4)
			if got := r.upgrade(on + ",logLevel=debug"); got != 4 {
				t.Errorf("%d API pods after the upgrade, want 4", got)
			}
			manifest, err := command(t, nil, r.helm, "get", "manifest", "r", "--namespace", r.namespace, "--kubeconfig", os.Getenv(clusterVariable))
			noError(t, err)
			if api := find(t, decode(t, manifest), "Deployment", "r-examprep-api"); api.at("spec", "replicas") != nil {
				t.Errorf("the manifest says %v", api.at("spec", "replicas"))
			}
		})
	}
}
