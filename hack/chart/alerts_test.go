package chart_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMigrationAlertSelectsTheJobOfTheRelease(t *testing.T) {
	for _, set := range []string{"environment=production", "fullnameOverride=exams"} {
		objects := render(t, "--set", "monitoring.prometheusRule.enabled=true,"+set)
		var migration, expression string
		for _, o := range objects {
			if o.text("kind") == "Job" {
				migration = o.text("metadata", "name")
			}
			if o.text("kind") != "PrometheusRule" {
				continue
			}
			groups, _ := o.at("spec", "groups").([]any)
			for _, group := range groups {
				rules, _ := object(group.(map[string]any)).at("rules").([]any)
				for _, rule := range rules {
					if alert := object(rule.(map[string]any)); alert.text("alert") == "ExamprepMigrationFailed" { //nolint:errcheck // a rule is an object
						expression = alert.text("expr")
					}
				}
			}
		}
		if want := `kube_job_status_failed{job_name="` + migration + `"}`; migration == "" || !strings.Contains(expression, want) {
			t.Errorf("%s: the alert asks %q, the Job is %q", set, expression, migration)
		}
	}
}

func TestEveryAlertLinksToItsPage(t *testing.T) {
	for given, base := range map[string]string{
		"":                                  "http://r-examprep-metrics.ns.svc:9090/runbooks",
		"https://wiki.example.com/examprep": "https://wiki.example.com/examprep",
		"http://wiki/a/":                    "http://wiki/a",
	} {
		objects := render(t, "--set", "monitoring.prometheusRule.enabled=true,monitoring.prometheusRule.runbookURL="+given)
		groups, _ := find(t, objects, "PrometheusRule", "r-examprep").at("spec", "groups").([]any)
		alerts := 0
		for _, group := range groups {
			fields, _ := group.(map[string]any)
			rules, _ := object(fields).at("rules").([]any)
			for _, rule := range rules {
				alert, _ := rule.(map[string]any)
				if alert["alert"] == nil {
					continue
				}
				alerts++
				link := object(alert).text("annotations", "runbook_url")
				if path.Base(link) == "." || link != base+"/"+path.Base(link) {
					t.Errorf("given %s, the page of %v is at %q", given, alert["alert"], link)
				}
				if _, err := os.Stat(filepath.Join(folder, "runbooks", path.Base(link))); err != nil {
					t.Errorf("%v: %v", alert["alert"], err)
				}
			}
		}
		if alerts < 30 {
			t.Errorf("%d alerts", alerts)
		}
	}
}

// The default address leads to a Service whose pods serve the pages on their port for metrics.
func TestDefaultAddressOfRunbooksLeadsToEveryPod(t *testing.T) {
	objects := render(t, "--set", "monitoring.prometheusRule.enabled=true")
	selector, _ := find(t, objects, "Service", "r-examprep-metrics").at("spec", "selector").(map[string]any)
	if len(selector) == 0 {
		t.Fatal("the Service has no selector")
	}
	for _, component := range []string{"api", "worker", "operator"} {
		pod := find(t, objects, "Deployment", "r-examprep-"+component)
		for label, value := range selector {
			if got := pod.text("spec", "template", "metadata", "labels", label); got != value {
				t.Errorf("%s: label %s is %q, the Service selects %q", component, label, got, value)
			}
		}
		ports, _ := containerOf(t, pod).at("ports").([]any)
		if !slices.ContainsFunc(ports, func(port any) bool {
			return object(port.(map[string]any)).text("name") == "metrics" //nolint:errcheck // a port is an object
		}) {
			t.Errorf("%s has no port metrics", component)
		}
	}
}
