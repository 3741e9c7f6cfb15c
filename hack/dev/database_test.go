package main

import (
	"os"
	"path/filepath"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestDatabaseNameChangesWithEachMigration(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "server", "postgres", "migrations")
	check.NoError(t, os.MkdirAll(folder, 0o755))
	seen := map[string]string{}
	for _, step := range []struct{ change, file, content string }{
		{"first file", "1.sql", "a"}, {"edited", "1.sql", "b"}, {"second file", "2.sql", "a"}, {"moved line", "2.sql", "ab"},
	} {
		testkit.WriteFile(t, filepath.Join(folder, step.file), []byte(step.content))
		name, err := databaseName(root)
		check.NoError(t, err)
		if earlier, ok := seen[name]; ok {
			t.Errorf("%s: the name is that of %s", step.change, earlier)
		}
		seen[name] = step.change
	}
}
