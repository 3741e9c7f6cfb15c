package main

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestThePodsProcessorsAreThoseOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../charts/examprep/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		API struct {
			Processors int `json:"processors"`
		} `json:"api"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if values.API.Processors != podProcessors {
		t.Errorf("the chart says %d, the benchmark %d", values.API.Processors, podProcessors)
	}
}
