package chart_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

const config = "../../config"

func TestDefinitionsAreThoseOfConfig(t *testing.T) {
	objects := render(t)
	files, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	listed := decode(t, read(t, filepath.Join(config, "crd", "kustomization.yaml")))[0].at("resources")
	if entries, _ := listed.([]any); len(entries) != len(files) {
		t.Errorf("config/crd lists %v, there are %d files", listed, len(files))
	}
	for _, file := range files {
		want := decode(t, read(t, file))[0]
		got := find(t, objects, "CustomResourceDefinition", want.text("metadata", "name"))
		annotations, _ := got.at("metadata", "annotations").(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release, and every exam with it", file)
		}
		delete(annotations, "helm.sh/resource-policy")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs from the chart's: make generate copies it", file)
		}
	}
	without := render(t, "--set", "crds.keep=false")
	if find(t, without, "CustomResourceDefinition", "ratetiers.examprep.dev").at("metadata", "annotations", "helm.sh/resource-policy") != nil {
		t.Error("crds.keep=false keeps")
	}
}

func TestTheOperatorsRightsAreThoseOfConfig(t *testing.T) {
	objects := render(t)
	for file, name := range map[string][2]string{
		"role.yaml":                {"ClusterRole", "ns:r-examprep-operator"},
		"author_role.yaml":         {"ClusterRole", "ns:r-examprep-author"},
		"viewer_role.yaml":         {"ClusterRole", "ns:r-examprep-viewer"},
		"webhook_author_role.yaml": {"ClusterRole", "ns:r-examprep-webhook-author"},
	} {
		want := decode(t, read(t, filepath.Join(config, "rbac", file)))[0]
		got := find(t, objects, name[0], name[1])
		if !reflect.DeepEqual(got.at("rules"), want.at("rules")) {
			t.Errorf("%s: rules differ: %v and %v", file, got.at("rules"), want.at("rules"))
		}
		wanted, _ := want.at("metadata", "labels").(map[string]any)
		for label, value := range wanted {
			if got.at("metadata", "labels", label) != value {
				t.Errorf("%s: the label %s is not %v", file, label, value)
			}
		}
	}
	// The lease is called after the release: that of one called examprep is the program's default, which config has.
	text, err := templateAs(t, "helm 4", "examprep", "ns")
	noError(t, err)
	want := decode(t, read(t, filepath.Join(config, "rbac", "leader_election_role.yaml")))[0]
	if got := find(t, decode(t, text), "Role", "examprep-operator-leader-election"); !reflect.DeepEqual(got.at("rules"), want.at("rules")) {
		t.Errorf("leader_election_role.yaml: rules differ: %v and %v", got.at("rules"), want.at("rules"))
	}
	kinds := []string{"Role", "ClusterRole"}
	for _, o := range objects {
		if slices.Contains(kinds, o.text("kind")) && o.text("metadata", "labels", "app.kubernetes.io/component") != "operator" {
			t.Errorf("%s gives rights to something that is not the operator", o.id())
		}
	}
}

func TestTheOperatorsPodIsThatOfConfig(t *testing.T) {
	want := decode(t, read(t, filepath.Join(config, "manager", "manager.yaml")))[0]
	got := find(t, render(t), "Deployment", "r-examprep-operator")
	for _, field := range []string{"replicas", "strategy", "revisionHistoryLimit"} {
		if !reflect.DeepEqual(got.at("spec", field), want.at("spec", field)) {
			t.Errorf("%s: the chart has %v, config %v", field, got.at("spec", field), want.at("spec", field))
		}
	}
	pods := [2]object{got.at("spec", "template", "spec").(map[string]any), want.at("spec", "template", "spec").(map[string]any)} //nolint:errcheck // a Deployment has one
	for _, field := range []string{"securityContext", "terminationGracePeriodSeconds", "enableServiceLinks", "automountServiceAccountToken"} {
		if !reflect.DeepEqual(pods[0].at(field), pods[1].at(field)) {
			t.Errorf("%s: the chart has %v, config %v", field, pods[0].at(field), pods[1].at(field))
		}
	}
	var containers [2]object
	for i, pod := range pods {
		list, _ := pod.at("containers").([]any)
		if len(list) != 1 {
			t.Fatalf("%d containers", len(list))
		}
		containers[i] = list[0].(map[string]any) //nolint:errcheck // a container is an object
	}
	for _, field := range []string{"name", "args", "ports", "livenessProbe", "readinessProbe", "startupProbe", "resources", "securityContext"} {
		if !reflect.DeepEqual(containers[0].at(field), containers[1].at(field)) {
			t.Errorf("%s: the chart has %v, config %v", field, containers[0].at(field), containers[1].at(field))
		}
	}
	plain, kustomized := variables(containers[0]), variables(containers[1])
	for name, value := range kustomized {
		if !reflect.DeepEqual(plain[name], value) {
			t.Errorf("%s: the chart has %v, config %v", name, plain[name], value)
		}
	}
	if kustomized["EXAMPREP_ENVIRONMENT"] != "production" {
		t.Error("config names no environment: the comparison sees nothing")
	}
}

// variables returns a container's own, without those from Secrets: config takes them all from one.
func variables(container object) map[string]any {
	found := make(map[string]any)
	list, _ := container.at("env").([]any)
	for _, entry := range list {
		variable := object(entry.(map[string]any)) //nolint:errcheck // a variable is an object
		if value := variable.at("value"); value != nil {
			found[variable.text("name")] = value
		}
	}
	return found
}
