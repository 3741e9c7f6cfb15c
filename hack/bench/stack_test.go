package main

import (
	"testing"

	"sigs.k8s.io/yaml"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestThePodsAreThoseOfTheChart(t *testing.T) {
	text := testkit.ReadFile(t, "../../charts/examprep/values.yaml")
	var values struct {
		API struct {
			Replicas   int `json:"replicas"`
			Processors int `json:"processors"`
		} `json:"api"`
	}
	check.NoError(t, yaml.Unmarshal(text, &values))
	if values.API.Replicas != podReplicas || values.API.Processors != podProcessors {
		t.Errorf("the chart says %d pods of %d processors, the benchmark %d of %d",
			values.API.Replicas, values.API.Processors, podReplicas, podProcessors)
	}
}
