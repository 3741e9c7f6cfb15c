package attempts

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// threeOpens are calls of one key.
func threeOpens() (calls []attemptsdb.OpenAttemptParams) {
	who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
	for range 3 {
		calls = append(calls, attemptsdb.OpenAttemptParams{
			ID: uuid.New(), AccountID: who.AccountID, FamilyID: who.FamilyID, KeyID: who.KeyID, ExamKey: testExam, PaperID: testPaper,
			PaperDigest: make([]byte, 32), Learner: []byte{}, QuestionCount: 3,
		})
	}
	return calls
}

// TestAnAnsweredBatchOfOpensOutlivesACrash has PostgreSQL crash when a batch of opens is answered. The process that writes
// unflushed commits is stopped before, so only what the batch has flushed outlives the crash.
func TestAnAnsweredBatchOfOpensOutlivesACrash(t *testing.T) {
	t.Parallel()
	server := testkit.StartPostgres(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	calls := threeOpens()
	crash := crasher(t, pool)
	_, answer := statements{attemptsdb.New(pool), "0"}.openMany(t.Context(), calls)
	crash()
	check.NoError(t, answer)
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*)::int FROM attempts"), len(calls), "attempts after the crash")
}

// crasher stops the process that writes unflushed commits, and returns a function that has PostgreSQL crash and recover. The pool has
// no connection of the time before then.
func crasher(t *testing.T, pool *pgxpool.Pool) (crash func()) {
	t.Helper()
	walWriter := func() (pid int, err error) {
		err = pool.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&pid)
		return pid, err
	}
	pid, err := walWriter()
	check.NoError(t, err)
	check.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	return func() {
		check.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) // PostgreSQL then ends all its processes, and recovers
		testkit.Eventually(t, "PostgreSQL has recovered", func() bool {
			now, err := walWriter()
			return err == nil && now != pid
		})
		pool.Reset()
	}
}

// interrupted is a pool that calls a function after its first statement.
type interrupted struct {
	*pgxpool.Pool

	once  sync.Once
	after func()
}

func (i *interrupted) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := i.Pool.Exec(ctx, sql, args...)
	i.once.Do(i.after)
	return tag, err
}

// TestOpensThatACrashLosesAreNotAnswered has PostgreSQL crash between the statement of a batch and its flush.
func TestOpensThatACrashLosesAreNotAnswered(t *testing.T) {
	t.Parallel()
	server := testkit.StartPostgres(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	calls := threeOpens()
	db := &interrupted{Pool: pool, after: crasher(t, pool)}
	_, answer := statements{attemptsdb.New(db), "0"}.openMany(t.Context(), calls)
	stored := testkit.Get[int](t, pool, "SELECT count(*)::int FROM attempts")
	if (answer == nil) != (stored == len(calls)) {
		t.Errorf("after the crash there are %d of %d attempts, and the answer is %v", stored, len(calls), answer)
	}
	if answer != nil && !postgres.Unavailable(answer) {
		t.Errorf("%v is no outage, so clients would not try again", answer)
	}
}

// TestABatchWhoseFlushIsRefusedDoesNotRunAgain has another session lock the table between the statement of a batch and its flush.
func TestABatchWhoseFlushIsRefusedDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	locker, pool := testkit.Open(t, url), testkit.Open(t, url, map[string]string{"lock_timeout": "1"})
	db := &interrupted{Pool: pool, after: func() { testkit.Begin(t, locker, "LOCK TABLE attempts") }}
	_, err := statements{attemptsdb.New(db), "0"}.openMany(t.Context(), threeOpens())
	if _, unflushed := errors.AsType[*unflushedError](err); !unflushed || postgres.Divides(err) || !postgres.Unavailable(err) {
		t.Errorf("the callers get %v", err)
	}
}
