package openapi

import (
	"reflect"
	"strings"
	"testing"

	node "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func unchanged(*node.Node) error { return nil }

// This package converts YAML itself only to keep the order. The result must equal that of the usual library.
func TestTheJSONSaysWhatTheYAMLSays(t *testing.T) {
	converted, err := convert([]byte(document), unchanged)
	check.NoError(t, err)
	var got, want any
	testkit.Decode(t, converted, &got)
	check.NoError(t, yaml.UnmarshalStrict([]byte(document), &want))
	if !reflect.DeepEqual(got, want) {
		t.Error("JSON and YAML differ")
	}
}

func TestTheJSONKeepsTheOrder(t *testing.T) {
	converted, err := JSON()
	check.NoError(t, err)
	text, last := string(converted), -1
	for _, part := range []string{
		`{"openapi":"3.1.`, `"info":{"title":`, `"version":"1.0.0"`, `"servers":`, `"paths":{"/exam-prep/list":`, `"/developer/usage":`,
		`"webhooks":{"mock_attempt.submitted":`, `"components":`,
	} {
		at := strings.Index(text, part)
		if at <= last {
			t.Errorf("%s stands at %d, want it after %d", part, at, last)
		}
		last = at
	}
}

func TestWhatJSONCannotSayIsRefused(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1\na: 2":            `duplicate`,
		"a: &x 1\nb: *x":        "line 2: aliases",
		"a: 2026-01-01":         "line 1: !!timestamp",
		"a: 0x10":               "line 1: ",
		"? [1]\n: 2":            "openapi.yaml",
		"a: .inf":               "line 1: ",
		"a: [":                  "read openapi.yaml",
		"a: \"\\xff\"\n1: true": "openapi.yaml",
	} {
		got, err := convert([]byte(source), unchanged)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v, want an error with %q", source, got, err, want)
		}
	}
}
