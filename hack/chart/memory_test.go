package chart_test

import (
	"testing"
)

func TestGoCollectsBeforeTheKernelKills(t *testing.T) {
	for limit, want := range map[string]string{
		"512Mi": "456340275", "1Gi": "912680550", "1.5Gi": "1369020825", "262144Ki": "228170137", "2Ti": "1869169767219",
		"500M": "425000000", "1G": "850000000", "300000k": "255000000", "268435456": "228170137",
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
