package chart_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/reference/values.md") //nolint:gochecknoglobals // a flag of go test

func TestUnknownAndMisplacedValuesAreRefused(t *testing.T) {
	for _, helm := range []string{"helm 3", "helm 4"} {
		for value, want := range map[string]string{
			"replicas=3":                           "replicas",
			"api.replica=3":                        "replica",
			"api.replicas=many":                    "replicas",
			"api.autoscaling.max=3":                "max",
			"environment=staging":                  "environment",
			"database.url=postgres://u:p@h/d":      "url",
			"worker.extraEnv[0].nam=A":             "nam",
			"networkPolicy.privateCIDRs[0]=local":  "privateCIDRs",
			"operator.serviceAccount.token=1":      "token",
			"migrate.mode=sometimes":               "mode",
			"webhooks.retention=30d":               "retention",
			"image.digest=latest":                  "digest",
			"api.podDisruptionBudget.minAvail=1":   "minAvail",
			"monitoring.podMonitor.everySeconds=1": "everySeconds",
			"test.apiKey.value=service_0":          "value",
		} {
			_, err := template(t, helm, "--set", value)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s takes %s: %v", helm, value, err)
			}
		}
	}
}

func TestWhatDoesNotFitTogetherIsRefusedByName(t *testing.T) {
	for values, want := range map[string]string{
		"oidc.issuer=https://login.example.com":                                                             "oidc.clientID",
		"oidc.issuer=https://login.example.com,oidc.clientID=a":                                             "oidc.redirectURL",
		"monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true":                         "twice",
		"caBundle.secretName=a,caBundle.configMapName=b":                                                    "caBundle",
		"operator.serviceAccount.create=false":                                                              "operator.serviceAccount.name",
		"operator.shard.name=a":                                                                             "operator.shard.selector",
		"ingress.enabled=true":                                                                              "ingress.hosts",
		"httpRoute.enabled=true":                                                                            "httpRoute.parentRefs",
		"worker.autoscaling.enabled=true,worker.autoscaling.type=keda":                                      "prometheusAddress",
		"api.drainDelaySeconds=40,api.shutdownGraceSeconds=42":                                              "drainDelaySeconds",
		"api.autoscaling.enabled=true,api.autoscaling.targetCPUUtilizationPercentage=null":                  "metric",
		"api.autoscaling.enabled=true,api.autoscaling.minReplicas=5,api.autoscaling.maxReplicas=4":          "maxReplicas",
		"worker.autoscaling.enabled=true,worker.autoscaling.minReplicas=5,worker.autoscaling.maxReplicas=4": "maxReplicas",
	} {
		_, err := template(t, "helm 4", "--set", values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error that names %s, got %v", values, want, err)
		}
	}
}

func TestReferenceListsEveryValue(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "values.md")
	text := read(t, path)
	const from, to = "<!-- values: written by go -C hack/chart test . -run EveryValue -update -->\n", "<!-- end of values -->"
	before, rest, found := strings.Cut(text, from)
	_, after, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("%s has no table of values between %q and %q", path, from, to)
	}
	want := before + from + table(t) + to + after
	if *update {
		noError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if text != want {
		t.Error("the table of values is out of date: go -C hack/chart test . -run EveryValue -update")
	}
}

func table(t *testing.T) string {
	t.Helper()
	var document yaml.Node // JSON is YAML, and a node keeps the order
	noError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "values.schema.json"))), &document))
	var defaults map[string]any
	noError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "values.yaml"))), &defaults))
	d := describer{t: t, root: document.Content[0]}
	d.rows("", d.root, defaults)
	return "\n| value | default | what |\n|---|---|---|\n" + d.out.String() + "\n"
}

type describer struct {
	t    *testing.T
	root *yaml.Node
	out  strings.Builder
}

func field(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// rows writes a row for each property that is no object of named fields, and descends into those that are.
func (d *describer) rows(prefix string, node *yaml.Node, defaults map[string]any) {
	properties := field(node, "properties")
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, property := properties.Content[i].Value, properties.Content[i+1]
		value, documented := defaults[name]
		if !documented && name != "global" && name != "minAvailable" {
			d.t.Errorf("%s%s has no default in values.yaml", prefix, name)
		}
		what := field(property, "description")
		if what == nil || what.Value == "" {
			d.t.Errorf("%s%s has no description", prefix, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok && field(property, "properties") != nil {
			_, _ = fmt.Fprintf(&d.out, "| **%s%s** | | %s |\n", prefix, name, what.Value)
			d.rows(prefix+name+".", property, inner)
			continue
		}
		text, err := json.Marshal(value)
		noError(d.t, err)
		_, _ = fmt.Fprintf(&d.out, "| `%s%s` | `%s` | %s |\n", prefix, name, shorten(string(text)), what.Value)
	}
}

// shorten keeps a default that is a page long out of the table.
func shorten(text string) string {
	if len(text) > 80 {
		return "see values.yaml"
	}
	return text
}
