package attempts

import (
	"syscall"
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAnAnsweredBatchOfOpensOutlivesACrash has PostgreSQL crash when a batch of opens is answered. The process that writes
// unflushed commits is stopped before, so only what the batch has flushed outlives the crash.
func TestAnAnsweredBatchOfOpensOutlivesACrash(t *testing.T) {
	t.Parallel()
	server := testkit.StartPostgres(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	digest := make([]byte, 32)
	who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: uuid.New()}
	var calls []attemptsdb.OpenAttemptParams
	for range 3 {
		calls = append(calls, attemptsdb.OpenAttemptParams{
			ID: uuid.New(), AccountID: who.AccountID, FamilyID: who.FamilyID, KeyID: who.KeyID, ExamKey: testExam, PaperID: testPaper,
			PaperDigest: digest, Learner: []byte{}, QuestionCount: 3,
		})
	}
	s := statements{attemptsdb.New(pool)}
	walWriter := func() (pid int, err error) {
		err = pool.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&pid)
		return pid, err
	}
	pid, err := walWriter()
	check.NoError(t, err)
	check.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	_, answer := s.openMany(t.Context(), calls)
	check.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) // PostgreSQL then ends all its processes, and recovers
	check.NoError(t, answer)
	testkit.Eventually(t, "PostgreSQL has recovered", func() bool {
		now, err := walWriter()
		return err == nil && now != pid
	})
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*)::int FROM attempts"), len(calls), "attempts after the crash")
}
