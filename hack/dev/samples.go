package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// samples is where the samples are, from the project's root.
const samples = "config/samples"

// object is a Kubernetes object of a sample.
type object map[string]any

func (o object) text(field string) string { value, _ := o[field].(string); return value }

func (o object) part(field string) object { value, _ := o[field].(map[string]any); return value }

func (o object) name() string { return o.part("metadata").text("name") }

func (o object) namespace() string {
	if namespace := o.part("metadata").text("namespace"); namespace != "" {
		return namespace
	}
	return "default"
}

// ours reports whether the object is one that the operator reconciles.
func (o object) ours() bool { return strings.HasPrefix(o.text("apiVersion"), "examprep.dev/") }

// readSamples reads the objects of all YAML files in a directory, in the files' order, kustomizations left out.
func readSamples(dir string) ([]object, error) {
	var objects []object
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a sample: %w", err)
		}
		for document := range strings.SplitSeq("\n"+string(text), "\n---") {
			var o object
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if o.text("kind") != "" && o.text("kind") != "Kustomization" {
				objects = append(objects, o)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the samples: %w", err)
	}
	if len(objects) == 0 {
		return nil, errors.New("read the samples: there are none in " + dir)
	}
	return objects, nil
}

// pointAt makes the endpoints among the objects deliver to the receiver, each to its own path. Samples name a receiver that
// can never exist (RFC 2606); a sample with a real address is left alone.
func pointAt(objects []object, receiver string) {
	for _, o := range objects {
		if o.text("kind") != "WebhookEndpoint" {
			continue
		}
		declared, err := url.Parse(o.part("spec").text("url"))
		if err == nil && reserved(declared.Hostname()) {
			o.part("spec")["url"] = strings.TrimSuffix(receiver, "/") + declared.EscapedPath()
		}
	}
}

// reserved reports whether RFC 2606 reserves a host's name, so that the host never exists.
func reserved(host string) bool {
	for _, domain := range []string{"invalid", "example", "test", "localhost", "example.com", "example.org", "example.net"} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

// list is the objects as one that kubectl takes.
func list(objects []object) (string, error) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return "", fmt.Errorf("write the samples: %w", err)
	}
	return string(text), nil
}
