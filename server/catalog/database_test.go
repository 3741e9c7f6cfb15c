package catalog_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

var owner = catalog.Claim{Cluster: "test", Namespace: "exams", Name: "owner"}

// bench is a database with a publisher on it.
type bench struct {
	pool      *pgxpool.Pool
	publisher *catalog.Publisher
	// statements counts what was sent on the pool, BEGIN and COMMIT included.
	statements *atomic.Int64
	// first is called before a transaction locks the exam, once.
	first *atomic.Pointer[func()]
}

type statementCounter struct {
	n     *atomic.Int64
	first *atomic.Pointer[func()]
}

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, sent pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	if strings.HasPrefix(sent.SQL, "-- name: InsertExam ") {
		if meddle := c.first.Swap(nil); meddle != nil {
			(*meddle)()
		}
	}
	return ctx
}

func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newBench(t *testing.T, env postgres.Environment) *bench {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(testkit.DatabaseURL(t))
	check.NoError(t, err)
	b := &bench{statements: &atomic.Int64{}, first: &atomic.Pointer[func()]{}}
	cfg.ConnConfig.Tracer = statementCounter{b.statements, b.first}
	if b.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	b.publisher = catalog.NewPublisher(b.pool, env)
	return b
}

// try publishes exam, or rolls its key back to revision pin if that is not 0.
func (b *bench) try(t *testing.T, claim catalog.Claim, exam catalog.Exam, pin int64, options catalog.Options) (catalog.Publication, error) {
	t.Helper()
	if pin > 0 {
		return b.publisher.RollBack(t.Context(), claim, exam.Key, pin, options)
	}
	return b.publisher.Publish(t.Context(), claim, catalogtest.Valid(t, exam), options)
}

func (b *bench) publish(t *testing.T, exam catalog.Exam) catalog.Publication {
	t.Helper()
	published, err := b.try(t, owner, exam, 0, catalog.Options{})
	check.NoError(t, err)
	return published
}

// beforeTheLock has meddle happen between the next publisher's read and its lock.
func (b *bench) beforeTheLock(meddle func()) { b.first.Store(&meddle) }

// subscribe makes an endpoint, so that events become deliveries.
func (b *bench) subscribe(t *testing.T) {
	t.Helper()
	testkit.Exec(t, b.pool, `INSERT INTO webhook_endpoints (id, url, events) VALUES (gen_random_uuid(), 'https://example.org/', $1)`,
		[]string{string(webhooks.KindContentUpdated)})
}

// events returns the data of every event so far, in order.
func (b *bench) events(t *testing.T) []webhooks.ContentUpdated {
	t.Helper()
	bodies := testkit.List[[]byte](t, b.pool, "SELECT body FROM webhook_events WHERE kind = $1 ORDER BY id", string(webhooks.KindContentUpdated))
	var events []webhooks.ContentUpdated
	for _, raw := range bodies {
		var body struct {
			Data webhooks.ContentUpdated `json:"data"`
		}
		testkit.Decode(t, raw, &body)
		events = append(events, body.Data)
	}
	return events
}

func (b *bench) snapshot(t *testing.T, cfg read.SnapshotConfig) *read.Snapshot {
	t.Helper()
	return catalogtest.OpenPatientSnapshot(t, b.pool, cfg)
}
