package firing

import (
	"net/http"
	"testing"
	"time"
)

func TestAlertsOfReceiversThatFail(t *testing.T) {
	s, p := newStage(t), newPrometheus(t)
	s.registerReceiver()
	worker := s.start("worker")
	p.pods[worker] = true
	reads(t, worker, "examprep_webhook_retention_success_timestamp_seconds 1.")
	p.quiet(10, s.deliver)

	s.status.Store(http.StatusInternalServerError)
	p.fire(40*time.Minute, s.deliver, "ExamprepWebhookTriesFailing")

	// As long as the receiver would have to fail.
	s.sql("UPDATE webhook_endpoints SET failing_since = failing_since - interval '3 days'")
	reads(t, worker, "examprep_webhook_endpoints_failing 1")
	p.fire(20*time.Minute, s.deliver, "ExamprepWebhookEndpointsFailing")

	s.status.Store(http.StatusGone)
	s.deliver()
	reads(t, worker, `examprep_webhook_endpoints_disabled_total{reason="gone"} 1`)
	p.fire(2*time.Minute, nothing, "ExamprepWebhookEndpointDisabled")
}

// deliver has an event happen, and waits until the receiver has answered a try.
func (s *stage) deliver() {
	s.t.Helper()
	before := s.received.Load()
	s.happen(1, 0)
	eventually(s.t, "the receiver is asked", func() bool { return s.received.Load() > before })
}
