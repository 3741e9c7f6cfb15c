package read_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

var owner = catalog.Claim{Cluster: "test", Namespace: "exams", Name: "owner"}

// bench is a database with a publisher on it.
type bench struct {
	pool      *pgxpool.Pool
	publisher *catalog.Publisher
	// statements counts the statements of the pool, BEGIN and COMMIT included.
	statements *atomic.Int64
}

type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newBench(t *testing.T, env postgres.Environment) *bench {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(testkit.DatabaseURL(t))
	check.NoError(t, err)
	b := &bench{statements: &atomic.Int64{}}
	cfg.ConnConfig.Tracer = statementCounter{b.statements}
	b.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	check.NoError(t, err)
	t.Cleanup(b.pool.Close)
	b.publisher = catalog.NewPublisher(b.pool, env)
	return b
}

func queries(b *bench) *catalogdb.Queries { return catalogdb.New(b.pool) }

func (b *bench) publish(t *testing.T, exam catalog.Exam) catalog.Publication {
	t.Helper()
	published, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{})
	check.NoError(t, err)
	return published
}

func (b *bench) snapshot(t *testing.T, cfg read.SnapshotConfig) *read.Snapshot {
	t.Helper()
	return catalogtest.OpenPatientSnapshot(t, b.pool, cfg)
}
