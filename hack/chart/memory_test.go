package chart_test

import (
	"testing"
)

func TestGoCollectsBeforeTheKernelKills(t *testing.T) {
	for limit, want := range map[string]string{
		"512Mi": "483183820", "1Gi": "966367641", "1.5Gi": "1449551462", "262144Ki": "241591910", "2Ti": "1979120929996",
		"500M": "450000000", "1G": "900000000", "300000k": "270000000", "268435456": "241591910",
	} {
		for _, set := range []string{"--set", "--set-string"} { // a number, and a text
			for _, component := range []string{"api", "worker", "operator"} {
				pod := find(t, render(t, set, component+".resources.limits.memory="+limit), "Deployment", "r-examprep-"+component)
				if got := variables(containerOf(t, pod))["GOMEMLIMIT"]; got != want {
					t.Errorf("%s, limit %s (%s): Go is told %v, want %s", component, limit, set, got, want)
				}
			}
		}
	}
}

func TestALimitWrittenInAnotherWayIsLeftToTheKubelet(t *testing.T) {
	api := containerOf(t, find(t, render(t, "--set-string", "api.resources.limits.memory=5e8"), "Deployment", "r-examprep-api"))
	list, _ := api.at("env").([]any)
	for _, entry := range list {
		variable := object(entry.(map[string]any)) //nolint:errcheck // a variable is an object
		if variable.text("name") == "GOMEMLIMIT" {
			if variable.text("valueFrom", "resourceFieldRef", "resource") != "limits.memory" {
				t.Errorf("%v", variable)
			}
			return
		}
	}
	t.Error("there is no GOMEMLIMIT")
}
