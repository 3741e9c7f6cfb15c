package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The variables. `dev test` sets them for the commands that it runs.
const (
	Database   = "EXAMPREP_TEST_DATABASE_URL" // of a PostgreSQL server, with the right to create databases
	Redis      = "EXAMPREP_TEST_REDIS_URL"
	Kubeconfig = "EXAMPREP_TEST_KUBECONFIG"
	NPM        = "EXAMPREP_TEST_NPM"  // directory of the packages of hack/npm
	Assets     = "KUBEBUILDER_ASSETS" // directory of kube-apiserver, etcd and kubectl
)

// Get returns a variable's value.
func Get(t testing.TB, name string) string {
	t.Helper()
	value, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Lookup returns a variable's value, or an error that says what to do.
func Lookup(name string) (string, error) {
	if value := os.Getenv(name); value != "" {
		return value, nil
	}
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("%s is not set: %w", name, err)
	}
	text, err := os.ReadFile(filepath.Join(root, ".dev", "test.env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is not set: %w", name, err)
	}
	for line := range strings.Lines(string(text)) {
		if known, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); known == name && value != "" {
			return value, nil
		}
	}
	switch name {
	case Database, Redis:
		return "", fmt.Errorf("%s is not set: run make test-servers", name)
	default:
		return "", fmt.Errorf("%s is not set: run make test-servers PKG=./PACKAGE with the package of this test", name)
	}
}

// Root returns the checkout's folder, which is above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module examprep.dev\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is outside the checkout; set it, or run the test in its package's directory")
		}
		dir = parent
	}
}
