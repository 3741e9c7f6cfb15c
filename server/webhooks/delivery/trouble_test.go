package delivery

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/send"
)

// eachTrouble runs a test with each trouble of a row.
func eachTrouble(t *testing.T, run func(t *testing.T, b *bench, trouble testkit.Trouble)) {
	t.Helper()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			run(t, newBench(t), trouble)
		})
	}
}

// oldSecrets adds so many expired secrets to an endpoint, and returns their ids in their order.
func (b *bench) oldSecrets(t *testing.T, endpoint uuid.UUID, n int) []uuid.UUID {
	t.Helper()
	testkit.Exec(t, b.pool, `INSERT INTO webhook_secrets (id, endpoint_id, key_id, ciphertext, expires_at)
		SELECT gen_random_uuid(), $1, 'k1', '', now() - interval '1 hour' FROM generate_series(1, $2)`, endpoint, n)
	return testkit.List[uuid.UUID](t, b.pool, "SELECT id FROM webhook_secrets WHERE expires_at < now() ORDER BY id")
}

func TestAnExpiredSecretInTroubleKeepsNoOther(t *testing.T) {
	t.Parallel()
	eachTrouble(t, func(t *testing.T, b *bench, trouble testkit.Trouble) {
		t.Helper()
		_, endpoint := b.endpoint(t, "https://receiver.example.com/")
		bad := b.oldSecrets(t, endpoint.ID, 250)[70]
		end := trouble.Begin(t, b.pool, "webhook_secrets", "id", bad.String())
		m := b.worker(t).maintainer
		if err := m.keepSecrets(t.Context()); (err != nil) != (trouble == testkit.Poisoned) {
			t.Errorf("the secrets were maintained: %v", err)
		}
		left := 1 // the endpoint's own
		if trouble != testkit.Slow {
			left = 2
		}
		b.until(t, left, "SELECT count(*) FROM webhook_secrets")
		end()
		check.NoError(t, m.keepSecrets(t.Context()))
		b.until(t, 1, "SELECT count(*) FROM webhook_secrets")
	})
}

func TestASecretInTroubleKeepsNoOtherUnderItsOldKey(t *testing.T) {
	t.Parallel()
	eachTrouble(t, func(t *testing.T, b *bench, trouble testkit.Trouble) {
		t.Helper()
		const endpoints = 20
		for n := range endpoints {
			_, endpoint := b.endpoint(t, fmt.Sprintf("https://receiver.example.com/%d", n))
			if n == 0 { // besides, an expired one cannot be deleted
				trouble.Begin(t, b.pool, "webhook_secrets", "id", b.oldSecrets(t, endpoint.ID, 1)[0].String())
			}
		}
		bad := testkit.Get[uuid.UUID](t, b.pool, "SELECT id FROM webhook_secrets WHERE expires_at IS NULL ORDER BY id OFFSET 5 LIMIT 1")
		end := trouble.Begin(t, b.pool, "webhook_secrets", "id", bad.String())
		ring, err := webhooks.ParseKeyring("k2:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=," + testKeys)
		check.NoError(t, err)
		m := b.workerOf(t, b.config(t), b.pool, ring).maintainer
		_ = m.keepSecrets(t.Context())
		done := endpoints - 1
		if trouble == testkit.Slow {
			done = endpoints
		}
		const underNew = "SELECT count(*) FROM webhook_secrets WHERE key_id = 'k2' AND expires_at IS NULL"
		b.until(t, done, underNew)
		end()
		_ = m.keepSecrets(t.Context())
		b.until(t, endpoints, underNew)
	})
}

// TestADeliveryInTroubleCostsNoOther has a worker lease, send and complete deliveries while one cannot be written, then without.
func TestADeliveryInTroubleCostsNoOther(t *testing.T) {
	t.Parallel()
	eachTrouble(t, func(t *testing.T, b *bench, trouble testkit.Trouble) {
		t.Helper()
		r := testkit.StartReceiver(t, nil)
		_, endpoint := b.endpoint(t, r.URL)
		_, other := b.endpoint(t, r.URL)
		b.insert(t, endpoint.ID, load)
		b.insert(t, other.ID, load)
		bad := b.ids(t)[10]
		end := trouble.Begin(t, b.pool, "webhook_deliveries", "id", bad.String())
		w := b.worker(t, r)
		var passed atomic.Int64
		w.dispatcher.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
		testkit.Run(t, w.Run)
		b.until(t, 2*load-1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND id <> $1", bad)
		end()
		passed.Store(int64(skipTime + time.Second)) // until then the delivery is left out
		b.until(t, 2*load, inState, "delivered")
	})
}

// TestAnEndpointInTroubleCostsNoOthersHealth flushes the health of many endpoints.
func TestAnEndpointInTroubleCostsNoOthersHealth(t *testing.T) {
	t.Parallel()
	eachTrouble(t, func(t *testing.T, b *bench, trouble testkit.Trouble) {
		t.Helper()
		const endpoints = 20
		health := b.worker(t).health
		health.refused.lasts = time.Nanosecond
		failed := send.Result{Status: http.StatusInternalServerError, Failure: "status"}
		ids := make([]uuid.UUID, endpoints)
		for n := range ids {
			_, endpoint := b.endpoint(t, fmt.Sprintf("https://receiver.example.com/%d", n))
			ids[n] = endpoint.ID
			health.record(attemptedAt(endpoint.ID, failed))
		}
		end := trouble.Begin(t, b.pool, "webhook_endpoints", "id", ids[5].String())
		check.NoError(t, health.flush(t.Context()))
		const failing = "SELECT count(*) FROM webhook_endpoints WHERE failing_since IS NOT NULL"
		b.until(t, endpoints-1, failing+" AND id <> $1", ids[5])
		end()
		health.record(attemptedAt(ids[5], failed))
		check.NoError(t, health.flush(t.Context()))
		b.until(t, endpoints, failing)
	})
}

// TestADeliveryInTroubleIsCancelledLast cancels the deliveries of two endpoints that are disabled.
func TestADeliveryInTroubleIsCancelledLast(t *testing.T) {
	t.Parallel()
	eachTrouble(t, func(t *testing.T, b *bench, trouble testkit.Trouble) {
		t.Helper()
		_, endpoint := b.endpoint(t, "https://receiver.example.com/")
		_, other := b.endpoint(t, "https://receiver.example.com/other")
		b.insert(t, endpoint.ID, load)
		b.insert(t, other.ID, load)
		testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET status = 'disabled'")
		bad := b.ids(t)[10]
		end := trouble.Begin(t, b.pool, "webhook_deliveries", "id", bad.String())
		c := b.worker(t).canceller
		c.skipped.lasts = time.Nanosecond
		disabled := []uuid.UUID{endpoint.ID, other.ID}
		check.NoError(t, c.cancelChunks(t.Context(), disabled))
		b.until(t, 2*load-1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'cancelled' AND id <> $1", bad)
		end()
		check.NoError(t, c.cancelChunks(t.Context(), disabled))
		b.until(t, 2*load, inState, "cancelled")
	})
}
