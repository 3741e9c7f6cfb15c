package chart_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everySetting gives values to those of the chart's settings that no example uses and that become variables.
func everySetting() []string {
	return []string{
		"--set", "pprof=true,webhooks.allowCIDRs={10.0.0.0/8},api.maxConnectionsPerAddress=100",
		"--set", "api.familyMaxConns=7,api.cacheMiB=64,api.keyDirectoryMiB=64,api.compressedMiB=16,api.bodyMiB=32,api.maxConnections=1000",
		"--set", "oidc.issuer=https://login.example.com,oidc.clientID=a,oidc.redirectURL=https://a,oidc.clientSecret.secretName=a,oidc.contact=a",
		"--set", "operator.restrictWebhookAccounts=true,operator.restrictAdoption=true,operator.trustedVerifiers.secretName=a",
		"--set", "test.apiKey.secretName=a",
	}
}

// The help of examprep names the variable of each flag.
var flagHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--[a-z0-9-]+(?:\[\S+\])? .*\[([A-Z0-9_]+)\](?: \(default .*\))?$`) //nolint:gochecknoglobals // compiled once

// A binary is the examprep that this repository builds, and the variables of its commands that were looked up.
type binary struct {
	t     *testing.T
	path  string
	known map[string][]string
}

func buildBinary(t *testing.T) *binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "examprep")
	if _, err := goTool(t, "-C", "../..", "build", "-buildvcs=false", "-o", path, "."); err != nil {
		t.Fatal(err)
	}
	return &binary{t: t, path: path, known: map[string][]string{}}
}

func (b *binary) variables(name string) []string {
	b.t.Helper()
	if known, ok := b.known[name]; ok {
		return known
	}
	help, err := command(b.t, nil, b.path, name, "--help")
	noError(b.t, err)
	if !strings.Contains(help, "examprep "+name+" [flags]") {
		b.t.Errorf("examprep has no command %q", name)
	}
	for _, match := range flagHelp.FindAllStringSubmatch(help, -1) {
		b.known[name] = append(b.known[name], match[1])
	}
	return b.known[name]
}

func ours(container object) []string {
	var names []string
	list, _ := container.at("env").([]any)
	for _, entry := range list {
		name := object(entry.(map[string]any)).text("name") //nolint:errcheck // a variable is an object
		if strings.HasPrefix(name, "EXAMPREP_") || slices.Contains([]string{"DATABASE_URL", "REDIS_URL", "KUBECONFIG"}, name) {
			names = append(names, name)
		}
	}
	return names
}

func containers(value any) []object {
	var found []object
	switch value := value.(type) {
	case object:
		return containers(map[string]any(value))
	case map[string]any:
		for name, field := range value {
			list, isList := field.([]any)
			if !isList || !slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, name) {
				found = append(found, containers(field)...)
				continue
			}
			for _, entry := range list {
				if container, ok := entry.(map[string]any); ok {
					found = append(found, container)
				}
			}
		}
	case []any:
		for _, element := range value {
			found = append(found, containers(element)...)
		}
	}
	return found
}

// check fails the test for each variable of a container without a flag of the command that it runs. It returns the
// others.
func (b *binary) check(where string, container object) []string {
	b.t.Helper()
	args, _ := container.at("args").([]any)
	if len(args) == 0 || container.at("command") != nil {
		b.t.Errorf("%s: container %s: args %v do not begin with a command of examprep", where, container.text("name"), args)
		return nil
	}
	name, _ := args[0].(string)
	known := b.variables(name)
	var found []string
	for _, variable := range ours(container) {
		if !slices.Contains(known, variable) {
			b.t.Errorf("%s: container %s: %s is the variable of no flag of examprep %s", where, container.text("name"), variable, name)
			continue
		}
		found = append(found, variable)
	}
	return found
}

func TestContainersHaveVariablesOfTheirCommands(t *testing.T) {
	b, seen := buildBinary(t), map[string]bool{}
	renderings := examples(t)
	renderings["every setting"] = everySetting()
	for name, values := range renderings {
		count := 0
		for _, o := range render(t, values...) {
			for _, container := range containers(o) {
				count++
				for _, variable := range b.check(fmt.Sprintf("%q, %s", name, o.id()), container) {
					seen[variable] = true
				}
			}
		}
		if count < least(name, 4) {
			t.Errorf("%q: %d containers", name, count)
		}
	}
	for path, variables := range templateVariables(t) {
		for _, variable := range variables {
			if !seen[variable] {
				t.Errorf("%s sets %s, which no container has: add its setting to everySetting", path, variable)
			}
		}
	}
}

func templateVariables(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	noError(t, err)
	found, count := map[string][]string{}, 0
	for _, file := range files {
		found[file] = regexp.MustCompile(`\bEXAMPREP_\w+`).FindAllString(read(t, file), -1)
		count += len(found[file])
	}
	if count < 20 {
		t.Errorf("the templates name %d variables", count)
	}
	return found
}

func TestContainersOfConfigHaveVariablesOfTheirCommands(t *testing.T) {
	b, count := buildBinary(t), 0
	err := filepath.WalkDir(config, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.Contains(path, "/crd/") {
			return err
		}
		for _, o := range decode(t, read(t, path)) {
			for _, container := range containers(o) {
				count += len(b.check(path, container))
			}
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("%d variables: %v", count, err)
	}
}
