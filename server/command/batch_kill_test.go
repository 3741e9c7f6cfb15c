package command

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// answerSheet is an attempt that is submitted with a key.
type answerSheet struct{ key, attempt string }

// sitting submits attempts at a pod that is killed meanwhile.
type sitting struct {
	*client
	sheets []answerSheet
}

// submit returns the status of a submission, 0 without an answer.
func (s *sitting) submit(i int) int {
	body := fmt.Sprintf(`{"attempt_id":%q,"answers":{"1:1":"B"}}`, s.sheets[i].attempt)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.address+examPath+"/mock-exams/submit", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.sheets[i].key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		return 0
	}
	return answer.StatusCode
}

// awaitQueue waits until a number of calls wait for a batch. All of them are in the next one.
func awaitQueue(t *testing.T, pod *testkit.Pod, waiting int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d calls wait", waiting), func() bool {
		return strings.Contains(pod.Scrape(), fmt.Sprintf("examprep_attempts_batch_waiting_calls{statement=\"close\"} %d\n", waiting))
	})
}

// TestAPodThatIsKilledInABatchLeavesAttemptsWholeOrUntouched kills a pod with SIGKILL while its batch has written one part of
// its attempts and waits for a lock. The batch's connection then breaks, or its statement goes on.
func TestAPodThatIsKilledInABatchLeavesAttemptsWholeOrUntouched(t *testing.T) {
	t.Parallel()
	for _, breaks := range []bool{true, false} {
		t.Run(fmt.Sprintf("the connection breaks: %v", breaks), func(t *testing.T) {
			e := newEnv(t)
			pool := testkit.Open(t, e.Database)
			catalogtest.Publish(t, pool, catalogtest.Exam(privateExam, "Private exam", "B"))
			s := &sitting{client: &client{env: e, pool: pool, address: testkit.FreeAddress(t), statuses: map[int]int{}}}
			api := e.start("api", "--listen", s.address)
			const alone, together = 4, 60 // calls in batches of one, and in the batch that is killed
			for i := range alone + together {
				if i%8 == 0 {
					s.key = e.newKey(canary)
				}
				if i == 0 {
					e.registerReceiver(pool)
				}
				s.sheets = append(s.sheets, answerSheet{key: s.key, attempt: s.open()})
			}
			middle := testkit.Begin(t, pool, fmt.Sprintf("SELECT FROM attempts WHERE id = '%s' FOR UPDATE", s.sheets[alone+together/2].attempt))
			table := testkit.Begin(t, pool, "LOCK TABLE attempts IN SHARE MODE")
			const backends = "pg_stat_activity WHERE datname = current_database() AND query LIKE '-- name: CloseAttempt%' AND state <> 'idle'"
			statuses := make([]int, len(s.sheets))
			var first, clients sync.WaitGroup
			for i := range alone {
				first.Go(func() { statuses[i] = s.submit(i) })
				testkit.Eventually(t, "a batch of one waits", func() bool { return count(t, pool, backends) == i+1 })
			}
			for i := alone; i < len(s.sheets); i++ {
				clients.Go(func() { statuses[i] = s.submit(i) })
			}
			awaitQueue(t, api, together)
			testkit.Release(t, table)
			answered := make(chan struct{})
			go func() { defer close(answered); first.Wait() }()
			testkit.Receive(t, answered, "the batches of one are answered")
			testkit.Eventually(t, "one batch runs, and waits for its middle attempt", func() bool {
				return count(t, pool, backends) == 1 && count(t, pool, backends+" AND wait_event_type = 'Lock'") == 1
			})
			api.MayFail = true
			check.NoError(t, api.Signal(syscall.SIGKILL))
			clients.Wait()
			if breaks {
				testkit.Exec(t, pool, "SELECT pg_terminate_backend(pid) FROM "+backends)
			}
			testkit.Release(t, middle)
			testkit.Eventually(t, "the batch has ended", func() bool { return count(t, pool, backends) == 0 })
			s.areWholeOrUntouched(pool, statuses, alone)

			next := e.start("api", "--listen", s.address)
			for i := range s.sheets {
				check.Equal(t, s.submit(i), http.StatusOK, "status of attempt %d, submitted again", i)
			}
			check.Equal(t, count(t, pool, "webhook_events WHERE account_id IS NOT NULL"), 2*len(s.sheets), "events of the %d attempts", len(s.sheets))
			next.Stop()
		})
	}
}

// areWholeOrUntouched checks attempts after the kill: those that were submitted alone have their answers, those of the batch do
// not. Each attempt has all of its submission, or nothing, and the batch is one transaction.
func (s *sitting) areWholeOrUntouched(pool *pgxpool.Pool, statuses []int, alone int) {
	s.t.Helper()
	whole := 0
	for i, sheet := range s.sheets {
		events := count(s.t, pool, fmt.Sprintf("webhook_events WHERE convert_from(body, 'UTF8')::jsonb->'data'->>'attempt_id' = '%s'", sheet.attempt))
		submitted := count(s.t, pool, fmt.Sprintf("attempts WHERE id = '%s' AND state = 'submitted' AND answers IS NOT NULL AND score_hundredths = 10000", sheet.attempt))
		open := count(s.t, pool, fmt.Sprintf("attempts WHERE id = '%s' AND state = 'in_progress' AND answers IS NULL", sheet.attempt))
		want := http.StatusOK
		if i >= alone {
			want = 0
			whole += submitted
		}
		if statuses[i] != want || events != 2*submitted || submitted+open != 1 || (i < alone && submitted == 0) {
			s.t.Errorf("attempt %d was answered %d; submitted %d, in progress %d, %d events", i, statuses[i], submitted, open, events)
		}
	}
	if batch := len(s.sheets) - alone; whole != 0 && whole != batch {
		s.t.Errorf("%d of the batch's %d attempts are written", whole, batch)
	}
	s.t.Logf("%d of the batch's attempts are written", whole)
}
