package content

import (
	"testing"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/testkit/check"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func load(t *testing.T, paths ...string) *Files {
	t.Helper()
	files, err := Load(t.Context(), nil, paths...)
	check.NoError(t, err)
	return files
}
