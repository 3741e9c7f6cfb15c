package main

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestThePodsAreThoseOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../charts/examprep/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		API struct {
			Replicas   int `json:"replicas"`
			Processors int `json:"processors"`
		} `json:"api"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if values.API.Replicas != podReplicas || values.API.Processors != podProcessors {
		t.Errorf("the chart says %d pods of %d processors, the benchmark %d of %d",
			values.API.Replicas, values.API.Processors, podReplicas, podProcessors)
	}
}
