package attempts

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	testExam  = "test-exam"
	otherExam = "other-exam"
	testPaper = "test-exam-2020"
	minutes   = 90
)

// bench is a Service on a database of its own, a shelf of papers and a clock that tests turn, which is the database's as well.
type bench struct {
	*Service
	*Sweeper
	pool     *pgxpool.Pool
	shelf    *shelf
	time     atomic.Pointer[time.Time]
	notified atomic.Int64
}

func (b *bench) Notify(...uuid.UUID) { b.notified.Add(1) }

func (b *bench) advance(d time.Duration) { b.setClock(b.time.Load().Add(d)) }

// setClock sets the time of pod and database.
func (b *bench) setClock(now time.Time) {
	b.time.Store(&now)
	if _, err := b.pool.Exec(context.Background(), "UPDATE clock.reading SET at = $1", now); err != nil {
		panic(err)
	}
}

// onTestTime makes the statements of a pool find the function now() of newBench before PostgreSQL's own.
func onTestTime() map[string]string {
	return map[string]string{"search_path": "clock, public, pg_catalog"}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	pool := testkit.Open(t, testkit.DatabaseURL(t)+"&pool_max_conns=16", onTestTime()) // racing requests reach PostgreSQL at once
	b := &bench{pool: pool, shelf: newShelf(testExam, otherExam)}
	start := time.Date(2026, 3, 1, 9, 0, 0, 123_456_789, time.UTC)
	for _, statement := range []string{
		"CREATE SCHEMA clock", "CREATE TABLE clock.reading (at timestamptz)", "INSERT INTO clock.reading VALUES (NULL)",
		"CREATE FUNCTION clock.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM clock.reading'",
	} {
		testkit.Exec(t, pool, statement)
	}
	b.setClock(start)
	b.Service = b.pod(t)
	b.Sweeper = NewSweeper(pool, slog.New(slog.DiscardHandler), nil)
	return b
}

// pod returns another Service on the same database, papers and clock.
func (b *bench) pod(t *testing.T) *Service {
	t.Helper()
	service, err := NewService(Config{
		NamespaceSecret: []byte("a secret of thirty-two characters"), Now: func() time.Time { return *b.time.Load() },
		BatchTimeout: testkit.Patience, LockTimeout: testkit.Patience,
	}, b.pool, b.shelf, b)
	check.NoError(t, err)
	t.Cleanup(service.Close)
	return service
}

// someone is a new account with a key, and an endpoint that is subscribed to its events.
func (b *bench) someone(t testing.TB) keys.Identity {
	t.Helper()
	who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
	testkit.Exec(t, b.pool, "INSERT INTO accounts (id, name) VALUES ($1, $2)", who.AccountID, who.AccountID.String())
	testkit.Exec(t, b.pool, `INSERT INTO webhook_endpoints (id, account_id, url, events)
		VALUES ($1, $2, 'https://receiver.test', '{mock_attempt.submitted,mock_attempt.scored}')`, uuid.New(), who.AccountID)
	return who
}

func (b *bench) open(t testing.TB, who keys.Identity, learner string) Opened {
	t.Helper()
	opened, err := b.Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 9, LearnerID: learner})
	check.NoError(t, err)
	return opened
}

func submission1(opened Opened, learner string) SubmitRequest {
	return SubmitRequest{
		ExamKey: testExam, AttemptID: opened.AttemptID, LearnerID: learner,
		Answers: []marking.Answer{{Key: "1:1", Value: "b"}, {Key: "2", Value: "d,c,a"}, {Key: "2:1", Value: "12.50"}, {Key: "3", Value: ""}},
	}
}

// bodies returns the data of all events of an account, by kind.
func (b *bench) bodies(t testing.TB, account uuid.UUID) map[string][]map[string]any {
	t.Helper()
	found := map[string][]map[string]any{}
	var kind string
	var event struct {
		Data map[string]any `json:"data"`
	}
	testkit.ForEach(t, b.pool, []any{&kind, &event}, func() {
		found[kind] = append(found[kind], event.Data)
		event.Data = nil
	}, `SELECT kind, convert_from(body, 'UTF8')::json FROM webhook_events e WHERE account_id = $1
		AND EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = e.id)`, account)
	return found
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// toJSON encodes a value with its feedback as the product does.
func toJSON(t testing.TB, value any) string {
	t.Helper()
	encode := json.MarshalFunc(func(f marking.Feedback) ([]byte, error) { return f.AppendJSON(nil), nil })
	text, err := json.Marshal(value, json.Deterministic(true), json.WithMarshalers(encode))
	check.NoError(t, err)
	return string(text)
}
