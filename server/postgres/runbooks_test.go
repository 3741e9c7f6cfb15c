package postgres_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// runbookSQL matches a statement that a runbook gives to psql, and a block of SQL.
var runbookSQL = regexp.MustCompile("(?s)psql \"\\$DATABASE_URL\" -c (?:'([^']+)'|\"([^\"]+)\")|```sql\n(.*?)```")

// shellExpands matches text that the shell changes within double quotes.
var shellExpands = regexp.MustCompile("[`\\\\]|\\$[\\w({$]")

// TestRunbookSQLRunsOnAMigratedDatabase runs each statement of each runbook, and rolls it back.
func TestRunbookSQLRunsOnAMigratedDatabase(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../charts/examprep/runbooks/*.md")
	check.NoError(t, err)
	pool := testkit.Database(t)
	statements := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check.NoError(t, err)
		found := runbookSQL.FindAllStringSubmatch(string(text), -1)
		if mentioned := strings.Count(string(text), "psql ") + strings.Count(string(text), "```sql"); mentioned != len(found) {
			t.Errorf("%s: %d of %d statements are of a form that this test reads", filepath.Base(page), len(found), mentioned)
		}
		for _, match := range found {
			statements++
			if shellExpands.MatchString(match[2]) {
				t.Errorf("%s: the shell changes %q; use single quotes", filepath.Base(page), match[2])
			}
			tx := testkit.Begin(t, pool)
			if _, err := tx.Exec(t.Context(), match[1]+match[2]+match[3]); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(page), err, match[0])
			}
			testkit.Release(t, tx)
		}
	}
	if statements == 0 {
		t.Error("no statement was found")
	}
}
