package firing

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const exam = "/v1/exam-prep/sample-geography"

func caused() []string {
	return []string{
		"ExamprepAPIErrorBudgetBurnFast", "ExamprepAPIErrorBudgetBurnSlow",
		"ExamprepAPIUnauthorizedSurge", "ExamprepAPIConnectionsRefused", "ExamprepAPIDown",
		"ExamprepPodNotReady", "ExamprepCrashLooping", "ExamprepAPIAbsent", "ExamprepWorkerAbsent", "ExamprepGateDegraded",
		"ExamprepKeysLeaseExpired", "ExamprepKeysUnreadable", "ExamprepKeysDirectoryLarge", "ExamprepGateUnavailable", "ExamprepRedisUnreachable",
		"ExamprepKeysRedisBehind", "ExamprepKeysRedisOverwritten",
		"ExamprepPostgresUnreachable",
		"ExamprepCatalogStale", "ExamprepCatalogDiverged", "ExamprepCatalogUnreadable", "ExamprepWebhookDeliveriesLate", "ExamprepWebhookOutboxLag",
		"ExamprepWebhookTriesFailing", "ExamprepWebhookEndpointsFailing", "ExamprepWebhookEndpointDisabled",
		"ExamprepAttemptSweepBehind", "ExamprepVacuumBehind", "ExamprepWebhookPartitionsMissing", "ExamprepWebhookRetentionBehind",
		"ExamprepWebhookDefaultPartitionRows", "ExamprepWebhookResultsDropped",
		"ExamprepKeyUsageBehind", "ExamprepKeyUsageSkipped",
		"ExamprepPostgresPoolExhausted", "ExamprepGateSlow", "ExamprepAPILatencyBudgetBurnFast", "ExamprepAPILatencyBudgetBurnSlow",
		"ExamprepOperatorReconcileErrors", "ExamprepResourceNotReady", "ExamprepSealMismatch", "ExamprepOperatorNoLeader",
		"ExamprepOperatorAbsent", "ExamprepAPIPanics", "ExamprepMigrationFailed",
	}
}

func TestEveryAlertIsCaused(t *testing.T) {
	known := map[string]bool{}
	for _, alert := range caused() {
		known[alert] = true
	}
	for _, group := range newPrometheus(t).groups {
		for _, rule := range group.AlertingRules() {
			if !known[rule.Name()] {
				t.Errorf("%s is not caused", rule.Name())
			}
			delete(known, rule.Name())
		}
	}
	for alert := range known {
		t.Errorf("%s is no alert", alert)
	}
}

func nothing() {}

// works is what a client does when all is well.
func (s *env) works(api *pod) func() {
	return func() {
		for range 5 {
			s.ask(api, s.key, "192.0.2.1", "GET", exam+"/overview", "")
		}
	}
}

func TestAlertsOfStoresThatAreAway(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	s.registerReceiver()
	api, worker := s.start("api"), s.start("worker")
	p.pods[api], p.pods[worker] = true, true
	reads(t, api, "examprep_ready 1")
	reads(t, worker, "examprep_webhook_retention_success_timestamp_seconds 1.")
	p.quiet(30, s.works(api))

	s.Redis.Cut(true)
	s.happen(3, -time.Hour)
	_ = s.hold("SELECT FROM webhook_deliveries FOR KEY SHARE") // no worker takes them, or a sweep would send them
	s.becomeDue(10 * time.Minute)
	for _, pod := range []*pod{api, worker} {
		reads(t, pod, `examprep_store_up{store="redis"} 0`)
	}
	reaches(t, worker, "examprep_webhook_outbox_lag_seconds", (10 * time.Minute).Seconds())
	// A pod answers for an empty bucket without Redis, so five requests may all be refused and notice nothing.
	degraded := func() {
		testkit.Eventually(t, "the API notices that Redis is cut", func() bool {
			s.works(api)()
			return strings.Contains("\n"+api.Scrape(), "\nexamprep_gate_degraded 1")
		})
	}
	p.fire(10*time.Minute, degraded, "ExamprepRedisUnreachable", "ExamprepGateDegraded",
		"ExamprepWebhookOutboxLag", "ExamprepWebhookDeliveriesLate")

	s.Postgres.Cut(true)
	reads(t, api, `examprep_store_up{store="postgres"} 0`)
	testkit.Eventually(t, "the gate lets nothing pass", func() bool {
		return s.ask(api, s.key, "192.0.2.1", "GET", exam+"/overview", "") == http.StatusServiceUnavailable
	})
	p.frozen = true
	p.fire(30*time.Minute, s.works(api), "ExamprepPostgresUnreachable", "ExamprepKeysLeaseExpired", "ExamprepCatalogStale", "ExamprepGateUnavailable",
		"ExamprepAPIErrorBudgetBurnFast", "ExamprepAPIErrorBudgetBurnSlow")
}

func TestAlertsOfClients(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api")
	narrow := s.start("api", "EXAMPREP_MAX_CONNECTIONS_PER_ADDRESS=1", "EXAMPREP_TRUSTED_PROXIES=")
	p.pods[api], p.pods[narrow] = true, true
	guess := 0
	p.fire(20*time.Minute, func() {
		for range 400 {
			guess++
			s.ask(api, "nobodys", fmt.Sprintf("198.51.%d.%d", guess/250%250, guess%250), "GET", exam+"/overview", "")
		}
	}, "ExamprepAPIUnauthorizedSurge")
	p.fire(20*time.Minute, func() {
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() { s.ask(narrow, s.key, "", "GET", exam+"/overview", "") })
		}
		clients.Wait()
	}, "ExamprepAPIConnectionsRefused")
}

func TestAlertsOfProcesses(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	testkit.Exec(t, s.db, "ALTER TABLE exams RENAME TO exams_elsewhere")
	api := s.start("api")
	p.pods[api] = true
	p.fire(20*time.Minute, nothing, "ExamprepAPIDown", "ExamprepPodNotReady")
	testkit.Exec(t, s.db, "ALTER TABLE exams_elsewhere RENAME TO exams")
	reads(t, api, "examprep_ready 1")
	for range 20 {
		p.tick()
	}

	worker := s.start("worker")
	p.pods[worker] = true
	p.quiet(4, nothing)
	p.fire(5*time.Minute, func() { // process_start_time_seconds is exact to a hundredth of a second
		worker.Stop()
		s.launch(worker, "worker")
	}, "ExamprepCrashLooping")

	for pod := range p.pods {
		pod.Stop()
		delete(p.pods, pod)
	}
	p.fire(30*time.Minute, nothing, "ExamprepAPIAbsent", "ExamprepWorkerAbsent")
}

func TestAlertsOfPodsThatDiffer(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	current := s.start("api")
	cut := testkit.StartProxy(t, s.Database, testkit.ProxyOptions{})
	behind := s.start("api", "DATABASE_URL="+cut.URL)
	p.pods[current], p.pods[behind] = true, true
	reads(t, behind, "examprep_ready 1")
	reads(t, current, "examprep_ready 1")
	cut.Cut(true)
	changed := filepath.Join(t.TempDir(), "changed.yaml")
	s.change(changed)
	s.Run(t, "content", "publish", changed, "../../../config/samples/sample-geography-questions.yaml")
	reads(t, current, "examprep_catalog_revisions 2")
	p.fire(10*time.Minute, nothing, "ExamprepCatalogDiverged")
}

func TestAlertOfAnUnreadableExam(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	testkit.Exec(t, s.db, "UPDATE exam_revisions SET document = '[]'")
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	reads(t, api, "examprep_catalog_unreadable_exams 1")
	p.fire(5*time.Minute, nothing, "ExamprepCatalogUnreadable")
	s.Run(t, "content", "publish", "../../../config/samples/examprep_v1alpha1_examcontent.yaml", "../../../config/samples/sample-geography-questions.yaml")
	reads(t, api, "examprep_catalog_unreadable_exams 0")
	p.quiet(4, s.works(api))
}

func TestAlertOfAnUnreadableKey(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	prefix := s.NewKey(t, "damaged")[:len("service_")+8]
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	p.quiet(4, s.works(api))
	testkit.Exec(t, s.db, "UPDATE api_keys SET prefix = 'damaged' WHERE prefix = $1", prefix)
	reads(t, api, "examprep_keys_unreadable_rows 1")
	p.fire(5*time.Minute, nothing, "ExamprepKeysUnreadable")
	testkit.Exec(t, s.db, "UPDATE api_keys SET prefix = $1 WHERE prefix = 'damaged'", prefix)
	reads(t, api, "examprep_keys_unreadable_rows 0")
	p.quiet(4, s.works(api))
}

func TestAlertOfALargeDirectory(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	api := s.start("api", "EXAMPREP_KEY_DIRECTORY_MIB=1")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	p.quiet(4, s.works(api))
	testkit.Exec(t, s.db, `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT g.id, a.id, g.id, 'service_' || lpad(to_hex(n), 8, '0'), sha256(convert_to(n::text, 'UTF8'))
		FROM set_config('examprep.bulk_changes', 'on', true), accounts a, generate_series(1, 9000) n, LATERAL (SELECT md5(n::text)::uuid AS id) g`)
	reads(t, api, "examprep_keys_live 9001")
	p.fire(10*time.Minute, nothing, "ExamprepKeysDirectoryLarge")
}

// change writes the sample exam with another name, so that publishing it makes a new revision.
func (s *env) change(to string) {
	s.t.Helper()
	text, err := os.ReadFile("../../../config/samples/examprep_v1alpha1_examcontent.yaml")
	if err == nil {
		err = os.WriteFile(to, bytes.Replace(text, []byte("Sample Geography Examination"), []byte("Changed"), 1), 0o600)
	}
	check.NoError(s.t, err)
}
