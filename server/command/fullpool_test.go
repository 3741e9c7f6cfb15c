package command

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestFullPoolStopsNeitherGateNorUsageNorHealth: requests hold all connections of the pod's pool, and more of them wait.
func TestFullPoolStopsNeitherGateNorUsageNorHealth(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.Env = append(s.Env, "EXAMPREP_POOL_MAX_CONNS=2", "EXAMPREP_FAMILY_MAX_CONNS=40")
	pool := testkit.Open(t, s.Database)
	busy, key := s.newKey("busy"), s.newKey("acme")
	pod := s.start("api")
	blocker := testkit.Begin(t, pool, "LOCK TABLE attempt_counters IN ACCESS EXCLUSIVE MODE")
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	defer func() {
		stop()
		testkit.Release(t, blocker)
		requests.Wait()
		pod.Stop()
	}()
	for range 20 {
		requests.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Address+"/v1/exam-prep/an-exam/mock-exams/history", nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+busy)
			answer, err := http.DefaultTransport.RoundTrip(request)
			if err == nil {
				_ = answer.Body.Close()
				t.Errorf("a request that the test blocks is answered %d", answer.StatusCode)
			}
		})
	}
	const blocked = `WITH blocked AS (
		SELECT a.query_start FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database())
		SELECT `
	testkit.Eventually(t, "the pool is full", func() bool { return testkit.Get[bool](t, pool, blocked+"count(*) = 2 FROM blocked") })
	answered := func() {
		t.Helper()
		if !testkit.Answers(pod.Health, "/readyz") {
			t.Error("the pod is not ready")
		}
		answer, body := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodGet, "http://"+pod.Address+"/v1/exam-prep/list", "",
			map[string]string{"Authorization": "Bearer " + key})
		check.Equal(t, answer.StatusCode, http.StatusOK, "a request with a key: %s", body)
	}
	for range 20 {
		answered()
	}
	testkit.Eventually(t, "the pod writes usage after the requests took both connections, which they still hold", func() bool {
		return testkit.Get[bool](t, pool, blocked+`count(*) = 2 AND max(query_start) < coalesce(
			(SELECT max(written_at) FROM key_usage_writers), '-infinity') FROM blocked`)
	})
	answered()
	metrics := pod.Scrape()
	for _, want := range []string{
		"\nexamprep_store_up{store=\"postgres\"} 1", "\nexamprep_key_usage_flush_failures_total 0", "\nexamprep_keys_lease_valid 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	s.newKey("other") // returns because the pod applies the change
}
