package catalogtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/webhooks"
)

// Publish publishes exams in a sandbox database, each by a claim of its name.
func Publish(t testing.TB, pool *pgxpool.Pool, exams ...catalog.Exam) {
	t.Helper()
	publisher := catalog.NewPublisher(pool, postgres.Sandbox, (*webhooks.Notifier)(nil))
	for _, exam := range exams {
		claim := catalog.Claim{Cluster: "test", Namespace: "test", Name: exam.Key}
		if _, err := publisher.Publish(t.Context(), claim, exam, catalog.Options{}); err != nil {
			t.Fatal(err)
		}
	}
}
