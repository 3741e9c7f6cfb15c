package chart_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/reference/values.md and the comments of values.yaml") //nolint:gochecknoglobals // a flag of go test

func TestReferenceListsEveryValue(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "values.md")
	text := read(t, path)
	table, _ := describe(t)
	const from, to = "<!-- values: written by go -C hack/chart test . -run EveryValue -update -->\n", "<!-- end of values -->"
	before, rest, found := strings.Cut(text, from)
	_, after, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("%s has no table of values between %q and %q", path, from, to)
	}
	want := before + from + table + to + after
	if *update {
		noError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if text != want {
		t.Error("the table of values is out of date: go -C hack/chart test . -run EveryValue -update")
	}
}

// header is the beginning of values.yaml.
const header = "# Each comment is the description in values.schema.json: go -C hack/chart test . -run EveryValue -update writes them here.\n\n"

func TestDefaultsExplainEveryValue(t *testing.T) {
	path := filepath.Join(folder, "values.yaml")
	text := read(t, path)
	_, descriptions := describe(t)
	want := header + strings.TrimLeft(comment(t, text, descriptions), "\n")
	if *update {
		noError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if text != want {
		t.Error("the comments of values.yaml are out of date: go -C hack/chart test . -run EveryValue -update")
	}
}

// comment returns the text of values.yaml with the description of each value above its key, and without other comments.
func comment(t *testing.T, text string, descriptions map[string]string) string {
	t.Helper()
	var out strings.Builder
	var path []string
	found := map[string]bool{}
	key := regexp.MustCompile(`^( *)([A-Za-z0-9]+):`)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if match := key.FindStringSubmatch(line); match != nil {
			path = append(path[:min(len(path), len(match[1])/2)], match[2])
			name := strings.Join(path, ".")
			if description, ok := descriptions[name]; ok {
				found[name] = true
				out.WriteString(wrap(description, match[1]+"# "))
			}
		}
		out.WriteString(line)
	}
	for name := range descriptions {
		if !found[name] {
			t.Errorf("values.yaml has no line for %s", name)
		}
	}
	return out.String()
}

// wrap breaks a text into lines of at most 100 characters, each with a prefix.
func wrap(text, prefix string) string {
	const width = 100
	var out strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == prefix:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			out.WriteString(line + "\n")
			line = prefix + word
		default:
			line += " " + word
		}
	}
	return out.String() + line + "\n"
}

// describe returns the rows of the table of values, and the description of each value that values.yaml has, by its path.
func describe(t *testing.T) (table string, descriptions map[string]string) {
	t.Helper()
	var document yaml.Node // JSON is YAML, and a node keeps the order
	noError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "values.schema.json"))), &document))
	var defaults map[string]any
	noError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "values.yaml"))), &defaults))
	d := describer{t: t, root: document.Content[0], descriptions: map[string]string{}}
	d.rows("", d.root, defaults)
	return "\n| value | default | what |\n|---|---|---|\n" + d.out.String() + "\n", d.descriptions
}

type describer struct {
	t            *testing.T
	root         *yaml.Node
	out          strings.Builder
	descriptions map[string]string
}

func field(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// rows writes a row for each property, and descends into those that have named fields.
func (d *describer) rows(prefix string, node *yaml.Node, defaults map[string]any) {
	properties := field(node, "properties")
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, property := properties.Content[i].Value, properties.Content[i+1]
		value, documented := defaults[name]
		if !documented && name != "global" && name != "minAvailable" {
			d.t.Errorf("%s%s has no default in values.yaml", prefix, name)
		}
		what := field(property, "description")
		if what == nil || what.Value == "" {
			d.t.Errorf("%s%s has no description", prefix, name)
			continue
		}
		if documented {
			d.descriptions[prefix+name] = what.Value
		}
		if inner, ok := value.(map[string]any); ok && field(property, "properties") != nil {
			_, _ = fmt.Fprintf(&d.out, "| **%s%s** | | %s |\n", prefix, name, what.Value)
			d.rows(prefix+name+".", property, inner)
			continue
		}
		text, err := json.Marshal(value)
		noError(d.t, err)
		_, _ = fmt.Fprintf(&d.out, "| `%s%s` | `%s` | %s |\n", prefix, name, shorten(string(text)), what.Value)
	}
}

// shorten keeps a default that is a page long out of the table.
func shorten(text string) string {
	if len(text) > 80 {
		return "see values.yaml"
	}
	return text
}
