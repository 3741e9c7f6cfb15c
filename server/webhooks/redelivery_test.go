package webhooks

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// redeliver requests a redelivery and returns the delivery that it is answered with.
func (b *bench) redeliver(t *testing.T, account, endpoint, delivery uuid.UUID) uuid.UUID {
	t.Helper()
	id, err := b.deliveries.Redeliver(t.Context(), account, endpoint, delivery)
	check.NoError(t, err)
	return id
}

// TestRecoveryReadsFewRowsOfAnEventThatWasRedeliveredOften counts the rows that a recovery, and a further redelivery, read of one event
// with hundreds of redeliveries. Each statement runs with plans for its values and for any values, without and with statistics.
func TestRecoveryReadsFewRowsOfAnEventThatWasRedeliveredOften(t *testing.T) {
	t.Parallel()
	const times, others, most = 300, 20_000, 20
	for name, each := range map[string]ended{
		"at once, before any ends": {},
		"each cancelled":           {"cancelled", time.Minute},
		"each delivered long ago":  {"delivered", 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			account, endpoint := b.registered(t, "https://receiver.example.com/")
			b.missed(t, account, endpoint.ID, 1)
			first := b.made(t)[0]
			b.fill(t, account, b.otherEndpoint(t, account), KindScored, StateDelivered, others)
			for range times {
				if id := b.redeliver(t, account, endpoint.ID, first); each.state != "" {
					b.end(t, id, each.state, each.ago)
				}
			}
			last := b.redeliver(t, account, endpoint.ID, first)
			testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'cancelled', finished_at = now() WHERE state = 'pending'")
			testkit.UnderEachPlan(t, b.pool, "webhook_deliveries, webhook_events", func(tx pgx.Tx, how string) {
				q := webhooksdb.New(tx)
				before := testkit.RowsRead(t, tx, "webhook_deliveries")
				found, err := recoverSince(t.Context(), q, account, endpoint.ID, time.Now().Add(-time.Hour), false)
				check.NoError(t, err)
				check.Equal(t, found, Recovery{Deliveries: 1}, "to recover, %s", how)
				recovered := testkit.RowsRead(t, tx, "webhook_deliveries")
				_, err = q.Redeliver(t.Context(), webhooksdb.RedeliverParams{DeliveryID: last, EndpointID: endpoint.ID, AccountID: account})
				check.NoError(t, err)
				redelivered := testkit.RowsRead(t, tx, "webhook_deliveries")
				if recovered-before > most || redelivered-recovered > most {
					t.Errorf("%s: a recovery reads %d rows and a redelivery %d, want %d at most",
						how, recovered-before, redelivered-recovered, most)
				}
			})
		})
	}
}

// TestRedeliverySupersedesAllEarlierDeliveries redelivers by the id of the first delivery, and of the last.
func TestRedeliverySupersedesAllEarlierDeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	other := b.otherEndpoint(t, account)
	b.scoredBy(t, account)
	const open = "SELECT id FROM webhook_deliveries WHERE state <> 'delivered' AND NOT superseded AND endpoint_id = $1"
	first := testkit.Get[uuid.UUID](t, b.pool, open, endpoint.ID)
	others := testkit.Get[uuid.UUID](t, b.pool, open, other)
	b.end(t, others, "failed", time.Minute)
	last := first
	for _, state := range []string{"failed", "cancelled", "delivered", "failed", "failed"} {
		b.end(t, last, state, time.Minute)
		of := first
		if state == "cancelled" {
			of = last
		}
		last = b.redeliver(t, account, endpoint.ID, of)
		check.Slices(t, testkit.List[uuid.UUID](t, b.pool, open, endpoint.ID), []uuid.UUID{last}, "not superseded after one was %s", state)
	}
	check.Slices(t, testkit.List[uuid.UUID](t, b.pool, open, other), []uuid.UUID{others}, "not superseded of the same event to another endpoint")
}

// TestRedeliveryBesideAPendingDeliveryMakesNoOther: the pending one is attempted now, unless a worker has it.
func TestRedeliveryBesideAPendingDeliveryMakesNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.scoredBy(t, account)
	first := b.made(t)[0]
	const wait, due = "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour', lease_id = $2 WHERE id = $1",
		"SELECT next_attempt_at <= now() FROM webhook_deliveries WHERE id = $1"
	testkit.Exec(t, b.pool, wait, first, nil)
	check.Equal(t, b.redeliver(t, account, endpoint.ID, first), first, "a redelivery of the pending first delivery")
	check.Equal(t, testkit.Get[bool](t, b.pool, due, first), true, "it is due")
	testkit.Exec(t, b.pool, wait, first, uuid.New())
	check.Equal(t, b.redeliver(t, account, endpoint.ID, first), first, "a redelivery of one that a worker has")
	check.Equal(t, testkit.Get[bool](t, b.pool, due, first), false, "it is due")
	b.end(t, first, "failed", time.Minute)

	answers := make([]uuid.UUID, 6)
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() {
			var err error
			if answers[i], err = b.deliveries.Redeliver(t.Context(), account, endpoint.ID, first); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	made := b.made(t)
	check.Equal(t, len(made), 2, "deliveries")
	for _, id := range answers {
		check.Equal(t, id, made[1], "the delivery of each answer")
	}
	check.Equal(t, b.redeliver(t, account, endpoint.ID, made[1]), made[1], "a redelivery of the pending redelivery")
	check.Equal(t, testkit.Get[int](t, b.pool, inState, "pending"), 1, "pending deliveries")
}

// TestRecoveryWaitsForARedelivery starts a recovery while a redelivery of the same event is about to commit. It then finds that
// event pending.
func TestRecoveryWaitsForARedelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.missed(t, account, endpoint.ID, 1)
	missed := b.made(t)[0]
	tx := testkit.Begin(t, b.pool)
	q := webhooksdb.New(tx)
	if _, err := q.LockEndpointOfAccount(t.Context(), webhooksdb.LockEndpointOfAccountParams{ID: endpoint.ID, AccountID: account}); err != nil {
		t.Fatal(err)
	}
	recovered, since := make(chan Recovery, 1), time.Now().Add(-time.Hour)
	go func() {
		recovery, err := b.deliveries.Recover(t.Context(), account, endpoint.ID, since)
		if err != nil {
			t.Error(err)
		}
		recovered <- recovery
	}()
	testkit.Eventually(t, "the recovery waits", func() bool {
		return testkit.Get[int](t, b.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	if _, err := q.Redeliver(t.Context(), webhooksdb.RedeliverParams{DeliveryID: missed, EndpointID: endpoint.ID, AccountID: account}); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, tx.Commit(t.Context()))
	if got := testkit.Receive(t, recovered, "the recovery ends"); got != (Recovery{}) {
		t.Errorf("recovered %+v beside a redelivery that is pending", got)
	}
}
