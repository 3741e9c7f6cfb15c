package delivery

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks"
)

func TestSkipListDropsItsOldestEntry(t *testing.T) {
	t.Parallel()
	s, now := newSkipList(skipTime), time.Unix(1000, 0)
	first := uuid.New()
	s.add(first, now)
	for range maxSkipped {
		s.add(uuid.New(), now.Add(time.Second))
	}
	left := s.ids(now.Add(2 * time.Second))
	if len(left) != maxSkipped {
		t.Errorf("%d entries are left, want %d", len(left), maxSkipped)
	}
	for _, id := range left {
		if id == first {
			t.Error("the oldest entry is left")
		}
	}
	if left := s.ids(now.Add(skipTime + 2*time.Second)); len(left) != 0 {
		t.Errorf("%d entries are left after their time", len(left))
	}
}

// damageSecret makes PostgreSQL fail to read the signing secret of an endpoint, as a damaged page does.
func (b *bench) damageSecret(t *testing.T, endpoint uuid.UUID) {
	t.Helper()
	for _, statement := range []string{
		`CREATE FUNCTION damaged() RETURNS bytea VOLATILE LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$`,
		"ALTER TABLE webhook_secrets RENAME TO webhook_secrets_stored",
		`CREATE VIEW webhook_secrets AS SELECT id, endpoint_id, key_id, created_at, expires_at,
			CASE WHEN endpoint_id = '` + endpoint.String() + `' THEN damaged() ELSE ciphertext END AS ciphertext FROM webhook_secrets_stored`,
	} {
		testkit.Exec(t, b.pool, statement)
	}
}

// TestEndpointWhoseSecretCannotBeReadIsLeftOut: else one delivery after the other is left out, without end.
func TestEndpointWhoseSecretCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, damaged := b.endpoint(t, r.URL)
	_, other := b.endpoint(t, r.URL)
	b.damageSecret(t, damaged.ID)
	b.fill(t, damaged.ID, load)
	w, now := b.worker(t, r), time.Now()
	w.dispatcher.now = func() time.Time { return now }
	testkit.Run(t, w.Run)
	testkit.Eventually(t, "the endpoint is left out", func() bool { return len(w.dispatcher.leftOut.ids(now)) == 1 })
	b.fill(t, other.ID, load)
	b.until(t, load, inState, "delivered")
	for range 5 { // as each sweep does
		w.dispatcher.windows.markDue(damaged.ID)
	}
	b.fill(t, other.ID, 1)
	b.until(t, load+1, inState, "delivered")
	if n := testutil.ToFloat64(w.dispatcher.metrics.dropped); n != maxSkips {
		t.Errorf("%v deliveries were left out, want %d", n, maxSkips)
	}
}

// TestSecretThatCannotBeReplacedCostsNoOther encrypts with a new key all secrets but one.
func TestSecretThatCannotBeReplacedCostsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		b.endpoint(t, "https://receiver.example.com/")
	}
	first := testkit.Get[uuid.UUID](t, b.pool, "SELECT id FROM webhook_secrets ORDER BY id LIMIT 1")
	testkit.Exec(t, b.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
	testkit.Exec(t, b.pool, `CREATE TRIGGER refuse BEFORE UPDATE ON webhook_secrets FOR EACH ROW WHEN (OLD.id = '`+first.String()+`')
		EXECUTE FUNCTION refuse()`)
	ring, err := webhooks.ParseKeyring("k2:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=," + testKeys)
	if err != nil {
		t.Fatal(err)
	}
	w := b.workerOf(t, b.config(t), b.pool, ring)
	if err := w.maintainer.keepSecrets(t.Context()); err == nil {
		t.Error("the refusal is not reported")
	}
	b.until(t, 2, "SELECT count(*) FROM webhook_secrets WHERE key_id = 'k2'")
}
