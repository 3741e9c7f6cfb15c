package chart_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// side renders one of the two releases that the examples describe.
func side(t *testing.T, environment string) []object {
	t.Helper()
	text, err := templateAs(t, "helm 4", "examprep", "examprep-"+environment,
		"--values", filepath.Join(folder, "examples", environment+".values.yaml"))
	noError(t, err)
	return decode(t, text)
}

func TestProductionAndSandboxStandSideBySide(t *testing.T) {
	production, sandbox := side(t, "production"), side(t, "sandbox")
	var taken []string
	for _, o := range production {
		taken = append(taken, o.id())
	}
	for _, o := range sandbox {
		if slices.Contains(taken, o.id()) {
			t.Errorf("both releases have %s", o.id())
		}
		if o.text("kind") == "CustomResourceDefinition" {
			t.Errorf("the sandbox brings %s", o.id())
		}
	}
	for name, objects := range map[string][]object{"production": production, "sandbox": sandbox} {
		api := containerOf(t, find(t, objects, "Deployment", "examprep-api"))
		if got := variables(api)["EXAMPREP_ENVIRONMENT"]; got != name {
			t.Errorf("%s runs as %v", name, got)
		}
		operator := containerOf(t, find(t, objects, "Deployment", "examprep-operator"))
		if got := variables(operator)["EXAMPREP_WATCH_NAMESPACES"]; got != "exams-"+name {
			t.Errorf("the operator of %s watches %v", name, got)
		}
	}
}

func containerOf(t *testing.T, workload object) object {
	t.Helper()
	list, _ := workload.at("spec", "template", "spec", "containers").([]any)
	if len(list) == 0 {
		t.Fatalf("%s has no container", workload.id())
	}
	return list[0].(map[string]any) //nolint:errcheck // a container is an object
}

// Two releases in one namespace, one of them a shard, elect their leaders apart: each operator is told of a lease of its
// own and may write that one and no other.
func TestEachReleaseHasALeaseOfItsOwn(t *testing.T) {
	shard := []string{"--values", filepath.Join(folder, "examples", "shard.values.yaml")}
	leases := map[any]string{}
	for _, release := range []struct {
		name, fullname string
		args           []string
	}{
		{"examprep", "examprep", nil},
		{"examprep-a", "examprep-a", shard},
		{"r", "r-examprep", nil},
		{"s", "named", []string{"--set", "fullnameOverride=named"}},
	} {
		text, err := templateAs(t, "helm 4", release.name, "ns", release.args...)
		noError(t, err)
		objects := decode(t, text)
		told := variables(containerOf(t, find(t, objects, "Deployment", release.fullname+"-operator")))
		lease := told["EXAMPREP_LEADER_LEASE"]
		if other, taken := leases[lease]; taken || lease != release.fullname+"-operator.examprep.dev" {
			t.Errorf("%s has the lease %v, %s too", release.name, lease, other)
		}
		leases[lease] = release.name
		if len(release.args) > 1 && strings.HasSuffix(release.args[1], "shard.values.yaml") &&
			(told["EXAMPREP_SHARD_NAME"] != "a" || told["EXAMPREP_SHARD_SELECTOR"] != "examprep.dev/shard=a") {
			t.Errorf("the shard is told %v", told)
		}
		var named []any
		rules, _ := find(t, objects, "Role", release.fullname+"-operator-leader-election").at("rules").([]any)
		for _, rule := range rules {
			names, _ := object(rule.(map[string]any)).at("resourceNames").([]any)
			named = append(named, names...)
		}
		if !slices.Equal(named, []any{lease}) {
			t.Errorf("the operator of %s may write the leases %v, and needs %v", release.name, named, lease)
		}
	}
}

func TestANamespacedOperatorHasNoRightsElsewhere(t *testing.T) {
	for _, o := range side(t, "sandbox") {
		if strings.HasPrefix(o.text("kind"), "ClusterRole") {
			t.Errorf("%s", o.id())
		}
	}
	objects := render(t, "--set", "operator.watchNamespaces={one,two}")
	for _, namespace := range []string{"one", "two"} {
		bound := false
		for _, o := range objects {
			bound = bound || o.text("kind") == "RoleBinding" && o.text("metadata", "namespace") == namespace &&
				o.text("roleRef", "kind") == "Role"
		}
		if !bound {
			t.Errorf("the operator may do nothing in %s", namespace)
		}
	}
}

// The kubelet kills after the grace: the process must have ended by then, and a pod that drains must still be working
// when the last balancer has taken note.
func TestAPodIsGivenTheTimeThatItsProcessTakes(t *testing.T) {
	for _, args := range [][]string{nil, {"--set", "api.shutdownGraceSeconds=90,api.drainDelaySeconds=60,worker.shutdownGraceSeconds=120"}} {
		objects := render(t, args...)
		for _, component := range []string{"api", "worker", "operator"} {
			workload := find(t, objects, "Deployment", "r-examprep-"+component)
			grace, err := time.ParseDuration(fmt.Sprint(variables(containerOf(t, workload))["EXAMPREP_SHUTDOWN_GRACE"]))
			noError(t, err)
			given, _ := workload.at("spec", "template", "spec", "terminationGracePeriodSeconds").(int)
			if time.Duration(given)*time.Second < grace+3*time.Second {
				t.Errorf("%s takes %s, the kubelet kills after %d s", component, grace, given)
			}
		}
	}
}

// Secrets are taken by reference only: none can lie in a release or in a git repository of rendered manifests.
func TestNoSecretIsRendered(t *testing.T) {
	for name, values := range examples(t) {
		for _, o := range render(t, values...) {
			if o.text("kind") == "Secret" {
				t.Errorf("%q renders %s", name, o.id())
			}
		}
	}
}

func TestEveryPodFitsTheRestrictedProfile(t *testing.T) {
	for name, values := range examples(t) {
		pods := 0
		for _, o := range render(t, values...) {
			pod := podOf(o)
			if pod == nil {
				continue
			}
			pods++
			if fmt.Sprint(pod.at("securityContext", "runAsNonRoot")) != "true" || pod.text("securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%q: %s: %v", name, o.id(), pod.at("securityContext"))
			}
			checkContainers(t, o.id(), pod)
			isOperator := o.text("metadata", "labels", "app.kubernetes.io/component") == "operator"
			if mounted := pod.at("automountServiceAccountToken"); fmt.Sprint(mounted) != fmt.Sprint(isOperator) {
				t.Errorf("%q: %s: token mounted: %v", name, o.id(), mounted)
			}
		}
		if pods < least(name, 5) {
			t.Errorf("%q: %d pods", name, pods)
		}
	}
}

func podOf(o object) object {
	switch o.text("kind") {
	case "Deployment", "Job":
		pod, _ := o.at("spec", "template", "spec").(map[string]any)
		return pod
	case "Pod":
		pod, _ := o.at("spec").(map[string]any)
		return pod
	default:
		return nil
	}
}

func checkContainers(t *testing.T, id string, pod object) {
	t.Helper()
	for _, kind := range []string{"initContainers", "containers"} {
		list, _ := pod.at(kind).([]any)
		for _, entry := range list {
			container := object(entry.(map[string]any)) //nolint:errcheck // a container is an object
			if fmt.Sprint(container.at("securityContext", "allowPrivilegeEscalation")) != "false" ||
				fmt.Sprint(container.at("securityContext", "readOnlyRootFilesystem")) != "true" ||
				fmt.Sprint(container.at("securityContext", "capabilities", "drop")) != "[ALL]" {
				t.Errorf("%s: %v", id, container.at("securityContext"))
			}
		}
	}
}
