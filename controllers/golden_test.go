package controllers

import (
	"strings"
	"testing"

	"examprep.dev/server/testkit/golden"
)

func TestGoldenConditions(t *testing.T) {
	t.Parallel()
	var lines []string
	for name, value := range declaredNames(t) {
		kind := "condition "
		if strings.HasPrefix(name, "Reason") {
			kind = "reason "
		}
		lines = append(lines, kind+value)
	}
	golden.Compare(t, "conditions", lines)
}

func TestGoldenEvents(t *testing.T) {
	t.Parallel()
	golden.Compare(t, "events", eventReasons(t, golden.Parse(t, "."), golden.Parse(t, "../api/v1alpha1")))
}
