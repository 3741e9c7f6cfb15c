package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const forge = root + "/.github"

// parse reads a YAML file.
func parse(t *testing.T, file string, into any) {
	t.Helper()
	check.NoErrorf(t, yaml.Unmarshal(testkit.ReadFile(t, file), into), "%s", file)
}

type workflow struct {
	Permissions *map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Steps []struct {
			Uses string `yaml:"uses"`
			Run  string `yaml:"run"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

func TestWorkflowsPinActionsAndLimitPermissions(t *testing.T) {
	files, err := filepath.Glob(forge + "/workflows/*.yaml")
	check.NoError(t, err)
	pinned, actions, commands := regexp.MustCompile(`^[\w./-]+@v\d+\.\d+\.\d+$`), 0, []string{}
	for _, file := range files {
		var w workflow
		parse(t, file, &w)
		if w.Permissions == nil {
			t.Errorf("%s: permissions are missing, so jobs can write to the repository", file)
			continue
		}
		for scope, access := range *w.Permissions {
			if access == "write" {
				t.Errorf("%s: every job can write %s; let one job do it", file, scope)
			}
		}
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				commands = append(commands, step.Run)
				if step.Uses == "" {
					continue
				}
				actions++
				if !pinned.MatchString(step.Uses) {
					t.Errorf("%s, %s: %s is not pinned to a full version", file, name, step.Uses)
				}
			}
		}
	}
	if actions < 8 {
		t.Errorf("%d actions found; their form has changed", actions)
	}
	if !slices.Contains(commands, ".ci/run") {
		t.Error("no workflow runs .ci/run")
	}
}

func TestDependabotCoversEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directory   string   `yaml:"directory"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	parse(t, forge+"/dependabot.yml", &config)
	for ecosystem, extension := range map[string]string{"gomod": ".mod", "npm": ".json"} {
		var want, got []string
		for name := range textFiles(t, extension) {
			if base := path.Base(name); (base == "go.mod" || base == "package.json") && !strings.Contains(name, "testdata/") {
				want = append(want, path.Join("/", path.Dir(name)))
			}
		}
		for _, update := range config.Updates {
			if update.Ecosystem == ecosystem && update.Directory != "" {
				got = append(got, update.Directory)
			}
			if update.Ecosystem == ecosystem {
				got = append(got, update.Directories...)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("dependabot.yml updates %s in %q, the repository has modules in %q", ecosystem, got, want)
		}
	}
}

func TestIssueFormsLinkToFilesOfTheRepository(t *testing.T) {
	files, err := filepath.Glob(forge + "/ISSUE_TEMPLATE/*.yml")
	check.NoError(t, err)
	file, followed := regexp.MustCompile(`\]\(\.\./(?:blob|tree)/main/([^)]+)\)`), 0
	for _, form := range files {
		var fields map[string]any
		parse(t, form, &fields)
		if path.Base(form) != "config.yml" && (fields["name"] == nil || fields["description"] == nil || fields["body"] == nil) {
			t.Errorf("%s has no name, description or body", form)
		}
		for _, match := range file.FindAllStringSubmatch(string(testkit.ReadFile(t, form)), -1) {
			followed++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(match[1]))); err != nil {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
	if len(files) != 3 || followed == 0 {
		t.Errorf("%d files and %d links", len(files), followed)
	}
}
