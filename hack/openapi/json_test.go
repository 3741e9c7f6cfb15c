package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	node "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// readSource returns contract.yaml.
func readSource(t *testing.T) []byte {
	t.Helper()
	source, err := os.ReadFile("../../" + sourcePath)
	check.NoError(t, err)
	return source
}

func unchanged(*node.Node) error { return nil }

// This package converts YAML itself only to keep the order. The result must equal that of the usual library.
func TestTheJSONSaysWhatTheYAMLSays(t *testing.T) {
	source := readSource(t)
	converted, err := convert(source, unchanged)
	check.NoError(t, err)
	var got, want any
	testkit.Decode(t, converted, &got)
	check.NoError(t, yaml.UnmarshalStrict(source, &want))
	if !reflect.DeepEqual(got, want) {
		t.Error("JSON and YAML differ")
	}
}

func TestTheJSONKeepsTheOrder(t *testing.T) {
	converted, err := convert(readSource(t), complete)
	check.NoError(t, err)
	text, last := regexp.MustCompile(`\n *|(": ) *`).ReplaceAllStringFunc(string(converted), func(found string) string { return strings.Trim(found, "\n ") }), -1
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
		"? [1]\n: 2":            "contract.yaml",
		"a: .inf":               "line 1: ",
		"a: [":                  "read contract.yaml",
		"a: \"\\xff\"\n1: true": "contract.yaml",
	} {
		got, err := convert([]byte(source), unchanged)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v, want an error with %q", source, got, err, want)
		}
	}
}
