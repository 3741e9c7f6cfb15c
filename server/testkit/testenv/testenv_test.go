package testenv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

func TestVariableComesFromTheEnvironmentOrTheCheckout(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module examprep.dev\n",
		"module/go.mod":     "module examprep.dev/module\n",
		"module/deep/a.txt": "",
		".dev/test.env":     "EXAMPREP_TEST_REDIS_URL=redis://file/0?a=b\nEXAMPREP_TEST_NPM=\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(filepath.Join(root, "module", "deep"))
	t.Setenv(testenv.Redis, "")
	t.Setenv(testenv.Database, "")
	t.Setenv(testenv.NPM, "")
	check.Equal(t, testenv.Get(t, testenv.Redis), "redis://file/0?a=b", "from the file")
	for name, advice := range map[string]string{testenv.Database: "run make test-servers", testenv.NPM: "PKG=./PACKAGE"} {
		if _, err := testenv.Lookup(name); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.Setenv(testenv.Redis, "redis://set")
	check.Equal(t, testenv.Get(t, testenv.Redis), "redis://set", "from the environment")
	t.Setenv(testenv.Redis, "")
	t.Chdir(t.TempDir())
	if _, err := testenv.Lookup(testenv.Redis); err == nil || !strings.Contains(err.Error(), "outside the checkout") {
		t.Errorf("outside the checkout: got %v", err)
	}
}
