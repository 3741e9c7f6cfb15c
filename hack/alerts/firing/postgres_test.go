package firing

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// agedPartitions empties the partitions, and leaves them as they are where none was added for weeks: what is written now
// goes to the default ones.
const agedPartitions = `DO $$
DECLARE
    old record;
    bound uuid := uuidv7_at(to_timestamp(floor(extract(epoch FROM now()) / 604800) * 604800));
BEGIN
    TRUNCATE webhook_events, webhook_deliveries, webhook_attempts;
    FOR old IN SELECT kind, name FROM webhook_partitions WHERE upper IS NOT NULL LOOP
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', 'webhook_' || old.kind, old.name);
        IF old.name LIKE '%first' THEN
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', 'webhook_' || old.kind, old.name, bound);
        ELSE
            EXECUTE format('DROP TABLE %I', old.name);
        END IF;
    END LOOP;
END
$$`

// TestAlertsOfATransactionThatNobodyEnds begins a transaction that holds the row of an attempt, a lock on a table that gets
// new partitions, and a snapshot for which vacuum must keep all rows.
func TestAlertsOfATransactionThatNobodyEnds(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api, worker := s.start("api"), s.start("worker")
	p.pods[api], p.pods[worker] = true, true
	reads(t, api, "examprep_ready 1")
	reads(t, worker, "examprep_webhook_retention_success_timestamp_seconds 1.")
	p.quiet(5, s.works(api))
	if status := s.ask(api, s.key, "192.0.2.1", "POST", exam+"/mock-exams/open", `{"paper_id":"sample-geography-2024"}`); status != http.StatusOK {
		t.Fatalf("opening a paper: %d", status)
	}
	worker.Stop()
	delete(p.pods, worker)

	testkit.Exec(t, s.db, "UPDATE attempts SET opened_at = now() - interval '3 days', expires_at = now() - interval '25 hours'")
	testkit.Exec(t, s.db, agedPartitions)
	testkit.Exec(t, s.db, "INSERT INTO webhook_events (id, kind, body) SELECT uuidv7(), 'mock_attempt.submitted', '' FROM generate_series(1, 110000)")
	release := s.hold("LOCK TABLE webhook_deliveries_default IN ACCESS SHARE MODE", "SELECT FROM attempts FOR UPDATE")
	testkit.Exec(t, s.db, "DELETE FROM webhook_events")
	testkit.Exec(t, s.db, "INSERT INTO webhook_events (id, kind, body) VALUES (uuidv7_at(now() + interval '20 weeks'), 'mock_attempt.submitted', '')")
	testkit.Exec(t, s.db, "SELECT pg_stat_force_next_flush()")

	worker = s.start("worker")
	p.pods[worker] = true
	reaches(t, worker, "examprep_attempts_oldest_overdue_seconds", time.Hour.Seconds())
	for _, line := range []string{
		"examprep_webhook_partitions_ahead -1", `examprep_webhook_rows{relation="webhook_events",state="dead"} 11`,
	} {
		reads(t, worker, line)
	}
	p.fire(75*time.Minute, nothing, "ExamprepAttemptSweepBehind", "ExamprepVacuumBehind", "ExamprepWebhookPartitionsMissing",
		"ExamprepWebhookRetentionBehind", "ExamprepWebhookDefaultPartitionRows")
	release()
	for _, line := range []string{"examprep_attempts_swept_total 1", "examprep_webhook_partitions_ahead 8"} {
		reads(t, worker, line)
	}
	p.tick()
	if p.firing()["ExamprepWebhookPartitionsMissing"] {
		t.Error("ExamprepWebhookPartitionsMissing fires after the transaction's end")
	}
}

func TestAlertsOfUsageThatIsNotAddedUp(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_key_usage_oldest_batch_age_seconds 0")
	p.quiet(5, nothing)

	release := s.hold("LOCK TABLE key_usage IN SHARE MODE")
	testkit.Exec(t, s.db, `INSERT INTO key_usage_batches (writer, batch, day, written_at, keys, requests, rate_limited, last_used)
		VALUES (gen_random_uuid(), 1, current_date, now() - interval '1 hour', ARRAY[gen_random_uuid()], '{1}', '{0}', '{0}')`)
	reaches(t, api, "examprep_key_usage_oldest_batch_age_seconds", time.Hour.Seconds())
	p.fire(10*time.Minute, nothing, "ExamprepKeyUsageBehind")
	release()
	reads(t, api, "examprep_key_usage_oldest_batch_age_seconds 0")
	p.tick()
	if p.firing()["ExamprepKeyUsageBehind"] {
		t.Error("ExamprepKeyUsageBehind fires when nothing waits")
	}
}

func TestAlertsOfUsageThatCannotBeAdded(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_key_usage_skipped_batches 0")
	p.quiet(5, nothing)

	testkit.Exec(t, s.db, `INSERT INTO key_usage_batches (writer, batch, day, written_at, keys, requests, rate_limited, last_used)
		VALUES (gen_random_uuid(), 1, current_date, now() - interval '1 minute', ARRAY[gen_random_uuid()], '{1}', '{0}', '{9223372036854775807}')`)
	reads(t, api, "examprep_key_usage_skipped_batches 1")
	p.fire(5*time.Minute, nothing, "ExamprepKeyUsageSkipped")
	testkit.Exec(t, s.db, "DELETE FROM key_usage_batches")
	reads(t, api, "examprep_key_usage_skipped_batches 0")
	p.tick()
	if p.firing()["ExamprepKeyUsageSkipped"] {
		t.Error("ExamprepKeyUsageSkipped fires when no batch is skipped")
	}
}

func TestAlertsOfConnectionsThatAreAllLent(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api", "DATABASE_URL="+s.Postgres.URL+"&pool_max_conns=3", "EXAMPREP_FAMILY_MAX_CONNS=3")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	p.quiet(12, func() { s.history(api) })

	release := s.hold("LOCK TABLE attempts, attempt_counters IN ACCESS EXCLUSIVE MODE")
	asking, enough := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for asking.Err() == nil {
				s.history(api)
			}
		})
	}
	p.fire(time.Hour, func() { reads(t, api, `examprep_postgres_pool_connections{state="acquired"} 3`) }, "ExamprepPostgresPoolExhausted")
	enough()
	release()
	clients.Wait()
}

// history asks for what only PostgreSQL knows.
func (s *env) history(api *pod) int {
	return s.ask(api, s.key, "192.0.2.1", "GET", exam+"/mock-exams/history", "")
}

func TestAlertsOfStoresThatAreSlow(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	p.quiet(5, func() { s.history(api) })

	s.Redis.Delay(80 * time.Millisecond) // a new connection's first call waits for two answers, at most 250 ms
	p.fire(20*time.Minute, func() {
		reads(t, api, "examprep_gate_degraded 0")
		s.history(api)
	}, "ExamprepGateSlow")
	s.Redis.Delay(0)

	s.Postgres.Delay(400 * time.Millisecond)
	p.fire(time.Hour, func() {
		check.Equal(t, s.history(api), http.StatusOK, "status of the history")
	}, "ExamprepAPILatencyBudgetBurnFast", "ExamprepAPILatencyBudgetBurnSlow")
	s.Postgres.Delay(0)
}
