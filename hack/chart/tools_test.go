package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	folder     = "../../charts/examprep"
	kubernetes = "1.37.2"
	// patience bounds one program; the first call may have to compile it.
	patience = 15 * time.Minute
)

// helms are the programs that users install with.
var helms = map[string]string{ //nolint:gochecknoglobals // a constant table
	"helm 3": "helm.sh/helm/v3/cmd/helm",
	"helm 4": "helm.sh/helm/v4/cmd/helm",
}

// programs and renderings are what was asked for before: each costs seconds.
var programs, renderings sync.Map //nolint:gochecknoglobals // of one test process

// program returns the path of a tool of the module in dir; Go builds it on first use.
func program(t *testing.T, dir, name string) string {
	t.Helper()
	if path, known := programs.Load(dir + name); known {
		return path.(string) //nolint:errcheck // nothing else is stored
	}
	out, err := goTool(t, "-C", dir, "tool", "-n", name)
	noError(t, err)
	path := strings.TrimSpace(out)
	programs.Store(dir+name, path)
	return path
}

// goTool runs go with the flags that the repository compiles with: each package is compiled once for all.
func goTool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return command(t, []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath"}, "go", args...)
}

// command runs a program and returns what it wrote to standard output; its error holds what it wrote to the other.
func command(t *testing.T, environment []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(ctx, name, args...)
	run.Env = append(os.Environ(), environment...)
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// An object is a rendered one as the API server would read it.
type object map[string]any

// at follows a path of fields; nil where one is not there.
func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[name]
	}
	return value
}

func (o object) text(path ...string) string {
	text, _ := o.at(path...).(string)
	return text
}

func (o object) id() string {
	return fmt.Sprintf("%s %s/%s", o.text("kind"), o.text("metadata", "namespace"), o.text("metadata", "name"))
}

func render(t *testing.T, args ...string) []object {
	t.Helper()
	text, err := template(t, "helm 4", args...)
	noError(t, err)
	return decode(t, text)
}

func template(t *testing.T, helm string, args ...string) (string, error) {
	t.Helper()
	return templateAs(t, helm, "r", "ns", args...)
}

func templateAs(t *testing.T, helm, release, namespace string, args ...string) (string, error) {
	t.Helper()
	key := strings.Join(append([]string{helm, release, namespace}, args...), "\x00")
	if text, known := renderings.Load(key); known {
		return text.(string), nil //nolint:errcheck // nothing else is stored
	}
	args = append([]string{"template", release, folder, "--namespace", namespace, "--kube-version", kubernetes}, args...)
	text, err := command(t, nil, program(t, ".", helms[helm]), args...)
	if err == nil {
		renderings.Store(key, text)
	}
	return text, err
}

func decode(t *testing.T, text string) []object {
	t.Helper()
	var objects []object
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var next map[string]any
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return objects
		}
		noError(t, err)
		if len(next) > 0 {
			objects = append(objects, next)
		}
	}
}

// find returns the object of a kind and name, which must be there.
func find(t *testing.T, objects []object, kind, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == kind && o.text("metadata", "name") == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	noError(t, err)
	return string(text)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func examples(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "examples", "*.values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	found := map[string][]string{"": nil}
	for _, file := range files {
		found[filepath.Base(file)] = []string{"--values", file}
	}
	return found
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
