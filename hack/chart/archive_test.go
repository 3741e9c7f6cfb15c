package chart_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// unpack returns the files of the packaged chart, by path in the chart.
func unpack(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open(archive(t))
	noError(t, err)
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	noError(t, err)
	files := map[string]string{}
	for entries := tar.NewReader(plain); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		noError(t, err)
		text, err := io.ReadAll(entries)
		noError(t, err)
		files[strings.TrimPrefix(entry.Name, "examprep/")] = string(text)
	}
}

// headings returns the anchors of a page's headings.
func headings(page string) []string {
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found = append(found, strings.ReplaceAll(text, " ", "-"))
	}
	return found
}

func TestLinksOfPackagedPagesResolve(t *testing.T) {
	files, followed := unpack(t), 0
	for name, text := range files {
		if path.Ext(name) == ".go" || strings.HasPrefix(name, "tests/") || strings.HasPrefix(name, "alerts/tests/") {
			t.Errorf("the package has %s", name)
		}
		if path.Ext(name) != ".md" {
			continue
		}
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, ":") { // a URL
				continue
			}
			followed++
			linked := name
			if target != "" {
				linked = path.Join(path.Dir(name), target)
			}
			page, packaged := files[linked]
			if !packaged {
				t.Errorf("%s links to %s, which is not in the package", name, link[1])
			} else if anchor != "" && !slices.Contains(headings(page), anchor) {
				t.Errorf("%s links to %s, but there is no such heading", name, link[1])
			}
		}
	}
	if followed < 90 {
		t.Errorf("%d links found: the test does not see them", followed)
	}
}

// Artifact Hub and Helm show these fields.
func TestChartDescribesItself(t *testing.T) {
	var chart struct {
		Icon        string
		Sources     []string
		Maintainers []struct{ Name string }
		Annotations map[string]string
	}
	noError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(folder, "Chart.yaml"))), &chart))
	if len(chart.Maintainers) == 0 || chart.Maintainers[0].Name == "" {
		t.Error("no maintainer has a name")
	}
	for _, annotation := range []string{"artifacthub.io/license", "artifacthub.io/category", "artifacthub.io/prerelease", "artifacthub.io/crds"} {
		if chart.Annotations[annotation] == "" {
			t.Errorf("the annotation %s is missing", annotation)
		}
	}
	if len(chart.Sources) == 0 {
		t.Error("there is no source")
	}
	const icon = "../../server/console/app/favicon.svg"
	if want := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(read(t, icon))); chart.Icon != want {
		t.Errorf("the icon is not %s; set it to\n%s", icon, want)
	}
	var kinds []struct{ Kind, Name string }
	noError(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &kinds))
	definitions, err := filepath.Glob(filepath.Join(folder, "files", "crds", "*.yaml"))
	noError(t, err)
	if len(kinds) != len(definitions) {
		t.Errorf("%d resource definitions are annotated, the chart has %d", len(kinds), len(definitions))
	}
	for _, kind := range kinds {
		group, resource := "examprep.dev", strings.TrimSuffix(kind.Name, ".examprep.dev")
		definition := read(t, filepath.Join(folder, "files", "crds", group+"_"+resource+".yaml"))
		if !strings.Contains(definition, "kind: "+kind.Kind+"\n") {
			t.Errorf("%s does not define %s", kind.Name, kind.Kind)
		}
	}
}
