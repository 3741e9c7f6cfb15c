package firing

import (
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/testkit"
)

func TestAlertsOfReceiversThatFail(t *testing.T) {
	s, p, worker := workerWithReceiver(t)
	reads(t, worker, "examprep_webhook_retention_success_timestamp_seconds 1.")
	p.quiet(10, s.deliver)

	s.receiver.Status.Store(http.StatusInternalServerError)
	p.fire(40*time.Minute, s.deliver, "ExamprepWebhookTriesFailing")

	// As long as the receiver would have to fail.
	testkit.Exec(s.t, s.db, "UPDATE webhook_endpoints SET failing_since = failing_since - interval '3 days'")
	reads(t, worker, "examprep_webhook_endpoints_failing 1")
	p.fire(20*time.Minute, s.deliver, "ExamprepWebhookEndpointsFailing")

	s.receiver.Status.Store(http.StatusGone)
	s.deliver()
	reads(t, worker, `examprep_webhook_endpoints_disabled_total{reason="gone"} 1`)
	p.fire(2*time.Minute, nothing, "ExamprepWebhookEndpointDisabled")
}

func TestAlertOfADeliveryThatPostgreSQLRefuses(t *testing.T) {
	s, p, worker := workerWithReceiver(t)
	reads(t, worker, "examprep_webhook_results_dropped_total 0")
	p.quiet(5, s.deliver)

	testkit.Exec(t, s.db, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE check_violation; END $$")
	testkit.Exec(t, s.db, `CREATE TRIGGER refuse BEFORE UPDATE ON webhook_deliveries FOR EACH ROW
		WHEN (new.lease_id IS NOT NULL) EXECUTE FUNCTION refuse()`)
	s.happen(1, 0)
	reads(t, worker, "examprep_webhook_results_dropped_total 1")
	p.fire(5*time.Minute, nothing, "ExamprepWebhookResultsDropped")
}

// workerWithReceiver starts a worker for one endpoint.
func workerWithReceiver(t *testing.T) (s *env, p *prometheus, worker *pod) {
	t.Helper()
	s, p = newEnv(t), newPrometheus(t)
	s.registerReceiver()
	worker = s.start("worker")
	p.pods[worker] = true
	return s, p, worker
}

// deliver has an event happen, and waits until the receiver has answered a try.
func (s *env) deliver() {
	s.t.Helper()
	before := len(s.receiver.Arrived)
	s.happen(1, 0)
	testkit.Eventually(s.t, "the receiver is asked", func() bool { return len(s.receiver.Arrived) > before })
}
