package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// definitions are resource definitions of others that the chart renders resources of, by module and folder in it.
var definitions = map[string][]string{ //nolint:gochecknoglobals // a constant table
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"sigs.k8s.io/gateway-api@v1.6.1":      {"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	"github.com/kedacore/keda/v2@v2.21.0": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
}

type schema = map[string]any

// schemas writes a JSON schema for every kind into a folder, in the form that kubeconform looks for, and returns the
// pattern to look by.
func schemas(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	writeKubernetes(t, target)
	own, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil || len(own) == 0 {
		t.Fatalf("no definitions of our own: %v", err)
	}
	for _, path := range own {
		writeDefinition(t, target, path)
	}
	for module, paths := range definitions {
		source := moduleFolder(t, ".", "mod", "download", "-json", module)
		for _, path := range paths {
			writeDefinition(t, target, filepath.Join(source, path))
		}
	}
	return target + "/{{ .Group }}_{{ .ResourceAPIVersion }}_{{ .ResourceKind }}.json"
}

func moduleFolder(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := goTool(t, append([]string{"-C", dir}, args...)...)
	noError(t, err)
	var module struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal([]byte(out), &module); err != nil || module.Dir == "" {
		t.Fatalf("go %v: %s", args, out)
	}
	return module.Dir
}

// writeKubernetes takes apart the OpenAPI document that the pinned API server serves.
func writeKubernetes(t *testing.T, target string) {
	t.Helper()
	if _, err := goTool(t, "-C", "../kubernetes", "mod", "download", "k8s.io/kubernetes"); err != nil {
		t.Fatal(err)
	}
	source := moduleFolder(t, "../kubernetes", "list", "-m", "-json", "k8s.io/kubernetes")
	if !strings.HasSuffix(source, "@v"+kubernetes) {
		t.Fatalf("hack/kubernetes pins %s, this test speaks of %s", source, kubernetes)
	}
	var document struct {
		Definitions map[string]schema `json:"definitions"`
	}
	noError(t, json.Unmarshal([]byte(read(t, filepath.Join(source, "api", "openapi-spec", "swagger.json"))), &document))
	for _, definition := range document.Definitions {
		tighten(definition)
	}
	for name, definition := range document.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			fields, ok := kind.(schema)
			if !ok {
				continue
			}
			needed := schema{}
			collect(document.Definitions, name, needed)
			writeSchema(t, target, fmt.Sprint(fields["group"]), fmt.Sprint(fields["version"]), fmt.Sprint(fields["kind"]),
				schema{"$ref": "#/definitions/" + name, "definitions": needed})
		}
	}
}

// collect adds the definition of a name, and those that it needs, to found.
func collect(all map[string]schema, name string, found schema) {
	if _, done := found[name]; done {
		return
	}
	found[name] = all[name]
	var follow func(any)
	follow = func(value any) {
		switch value := value.(type) {
		case schema:
			if reference, ok := value["$ref"].(string); ok {
				collect(all, strings.TrimPrefix(reference, "#/definitions/"), found)
			}
			for _, inner := range value {
				follow(inner)
			}
		case []any:
			for _, inner := range value {
				follow(inner)
			}
		}
	}
	follow(all[name])
}

// tighten refuses fields that are not known, as the API server does with --field-validation=Strict, and says in JSON
// schema what OpenAPI says in formats of its own.
func tighten(value any) {
	switch value := value.(type) {
	case schema:
		if _, object := value["properties"].(schema); object && value["additionalProperties"] == nil &&
			!says(value, "x-kubernetes-preserve-unknown-fields") {
			value["additionalProperties"] = false
		}
		if value["format"] == "int-or-string" || says(value, "x-kubernetes-int-or-string") {
			value["type"] = []any{"string", "integer"}
		}
		if description, _ := value["description"].(string); strings.HasPrefix(description, "Quantity is a fixed-point") {
			value["type"] = []any{"string", "number"}
		}
		if _, ok := value["format"].(string); ok { // a property may be called that, too
			delete(value, "format")
		}
		for _, inner := range value {
			tighten(inner)
		}
	case []any:
		for _, inner := range value {
			tighten(inner)
		}
	}
}

// says tells whether a schema sets an extension; a property may be called that, too.
func says(value schema, extension string) bool {
	set, _ := value[extension].(bool)
	return set
}

// writeDefinition writes a schema for each version of a CustomResourceDefinition.
func writeDefinition(t *testing.T, target, path string) {
	t.Helper()
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema schema `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, path)), &crd); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, version := range crd.Spec.Versions {
		openAPI := version.Schema.OpenAPIV3Schema
		tighten(openAPI)
		if properties, ok := openAPI["properties"].(schema); ok {
			properties["metadata"] = schema{"type": "object"}
		}
		writeSchema(t, target, crd.Spec.Group, version.Name, crd.Spec.Names.Kind, openAPI)
	}
}

// writeSchema names a file as kubeconform fills in the pattern: the core group is called by its version.
func writeSchema(t *testing.T, target, group, version, kind string, content schema) {
	t.Helper()
	if group == "" {
		group = version
	}
	text, err := json.Marshal(content)
	noError(t, err)
	name := fmt.Sprintf("%s_%s_%s.json", group, version, strings.ToLower(kind))
	noError(t, os.WriteFile(filepath.Join(target, name), text, 0o600))
}
