package delivery

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/send"
)

func TestEventArrivesWithItsBytesAndVerifies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	want, _ := b.endpoint(t, r.URL+"/hook?x=1")
	testkit.Run(t, b.worker(t, r).Run)
	event := b.happen(t, 1)
	got := r.Next(t)
	if !bytes.Equal(got.Body, event.Body) {
		t.Errorf("body %s, want %s", got.Body, event.Body)
	}
	if id := got.Header.Get("Webhook-Id"); id != event.ID.String() {
		t.Errorf("webhook-id %q, want %s", id, event.ID)
	}
	header := got.Header.Get(webhooks.SignatureHeader)
	if err := client.Verify(header, got.Body, want.Secret, time.Now(), client.Tolerance); err != nil {
		t.Error(err)
	}
	b.until(t, 1, inState, "delivered")
}

func TestFailureIsRetriedWithTheSameBytesAndAFreshSignature(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	want, _ := b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	event := b.happen(t, 1)
	for range 3 {
		got := r.Next(t)
		if !bytes.Equal(got.Body, event.Body) {
			t.Errorf("body %s, want %s", got.Body, event.Body)
		}
		if err := client.Verify(got.Header.Get(webhooks.SignatureHeader), got.Body, want.Secret, time.Now(), client.Tolerance); err != nil {
			t.Error(err)
		}
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 3")
}

func TestDeliveryWithoutASuccessFailsAfterSixAttempts(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(n int, w http.ResponseWriter, r *http.Request){
		"server error": func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"redirect": func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/elsewhere", http.StatusFound)
		},
		"connection cut": func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := testkit.StartReceiver(t, answer)
			b.endpoint(t, r.URL)
			testkit.Run(t, b.worker(t, r).Run)
			b.happen(t, 1)
			b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = 6")
			if n := len(r.Arrived); n != 6 {
				t.Errorf("%d tries, want 6", n)
			}
		})
	}
}

func TestReceiverThatIsGoneIsDisabledAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, endpoint := b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	b.happen(t, 1)
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
	b.happen(t, 2)
	b.until(t, 0, inState, "pending")
	if n := len(r.Arrived); n != 1 {
		t.Errorf("%d tries, want 1", n)
	}
}

func TestLateGoneDoesNotDisableTheNewURL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	old := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		held.hold()
		w.WriteHeader(http.StatusGone)
	})
	moved := testkit.StartReceiver(t, nil)
	want, endpoint := b.endpoint(t, old.URL)
	testkit.Run(t, b.concurrentWorker(t, 4, old, moved).Run)
	b.fill(t, endpoint.ID, 1)
	held.await(t)
	want.URL = moved.URL
	if _, err := b.managed.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	held.release()
	b.until(t, 1, inState, "failed")
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE last_status = 410 AND status = 'enabled'")
	b.fill(t, endpoint.ID, 1)
	moved.Next(t)
}

func TestDeletedOrSuspendedEndpointGetsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, _ := b.endpoint(t, r.URL)
	suspended, _ := b.endpoint(t, r.URL)
	b.happen(t, 1)
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	suspended.Suspend = true
	if _, err := b.managed.Apply(t.Context(), suspended); err != nil {
		t.Fatal(err)
	}
	b.happen(t, 2)
	// One more as if its event had been written while the endpoint was being deleted.
	testkit.Exec(t, b.pool, `INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event)
		SELECT gen_random_uuid(), id, gen_random_uuid(), kind FROM webhook_events LIMIT 1`)
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 0, inState, "pending")
	if n := len(r.Arrived); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
	suspended.Suspend = false
	if _, err := b.managed.Apply(t.Context(), suspended); err != nil {
		t.Fatal(err)
	}
	event := b.happen(t, 3)
	if got := r.Next(t); got.Header.Get("Webhook-Id") != event.ID.String() {
		t.Error("what happened while suspended was delivered later")
	}
}

func TestEndpointThatFailsForDaysIsDisabledWhenItFailsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	want, endpoint := b.endpoint(t, r.URL)
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '6 days'")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'enabled'", endpoint.ID)
	b.happen(t, 1)
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
	b.until(t, 0, inState, "pending")
	health, err := b.managed.Health(t.Context(), want.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if health.DisabledReason != reasonFailing || health.LastStatus != http.StatusInternalServerError {
		t.Errorf("health %+v", health)
	}
}

func TestSecretsMoveToTheNewEncryptionKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	want, _ := b.endpoint(t, r.URL)
	newKey := "k2:" + base64.StdEncoding.EncodeToString([]byte("fedcba9876543210fedcba9876543210"))
	start := func(keys string) (stop func()) {
		t.Helper()
		ring, err := webhooks.ParseKeyring(keys)
		if err != nil {
			t.Fatal(err)
		}
		w := b.workerOf(t, b.config(t, r), b.pool, ring)
		return testkit.Run(t, w.Run)
	}
	stop := start(newKey + "," + testKeys)
	b.until(t, 1, "SELECT count(*) FROM webhook_secrets WHERE key_id = 'k2'")
	stop()
	start(newKey)
	b.happen(t, 1)
	got := r.Next(t)
	if err := client.Verify(got.Header.Get(webhooks.SignatureHeader), got.Body, want.Secret, time.Now(), client.Tolerance); err != nil {
		t.Error(err)
	}
}

func TestUnreadableSecretCostsNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	b.endpoint(t, r.URL)
	stranger, err := webhooks.ParseKeyring("k9:" + base64.StdEncoding.EncodeToString([]byte("fedcba9876543210fedcba9876543210")))
	if err != nil {
		t.Fatal(err)
	}
	w := b.workerOf(t, b.config(t, r), b.pool, stranger)
	stop := testkit.Run(t, w.Run)
	b.happen(t, 1)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 0 AND next_attempt_at > created_at + interval '30 minutes'")
	stop()
	if unsigned := testutil.ToFloat64(w.dispatcher.metrics.unreadableSecrets); unsigned != 1 {
		t.Errorf("%v tries counted as unsigned", unsigned)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now()")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 1")
}

func TestUnreadableSecretCostsItsEndpointOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	_, unreadable := b.endpoint(t, r.URL)
	testkit.Exec(t, b.pool, "UPDATE webhook_secrets SET ciphertext = '\\x00' WHERE endpoint_id = $1", unreadable.ID)
	b.fill(t, unreadable.ID, load)
	b.fill(t, endpoint.ID, load)
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, load, inState, "delivered")
	b.until(t, load, `SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1 AND state = 'pending' AND attempt = 0
		AND lease_id IS NULL AND next_attempt_at > now()`, unreadable.ID)
	if n := len(r.Arrived); n != load {
		t.Errorf("%d requests for %d deliveries", n, load)
	}
}

func TestDeliveryWithoutItsEventIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 2)
	testkit.Exec(t, b.pool, "DELETE FROM webhook_events WHERE id = (SELECT id FROM webhook_events LIMIT 1)")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, inState, "delivered")
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'cancelled' AND attempt = 0 AND finished_at IS NOT NULL")
}

func TestPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 1)
	w := b.worker(t)
	w.dispatcher.send = func(context.Context, send.Request) send.Result { panic("of a test") }
	testkit.Run(t, w.Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = $1 AND last_failure = $2", maxAttempts, failureInternal)
}

func TestWorkerRefusesARetentionThatIsTooShort(t *testing.T) {
	t.Parallel()
	var invalid *webhooks.ValidationError
	if _, err := New(Config{Retention: webhooks.MinRetention - 1}, nil, nil, nil); !errors.As(err, &invalid) || invalid.Field != "retention" {
		t.Errorf("got %v, want a ValidationError of retention", err)
	}
}

// BenchmarkDeliveries measures a worker that has b.N deliveries for one endpoint. [BenchmarkBarePosts] makes the same requests
// without a worker.
func BenchmarkDeliveries(b *testing.B) {
	stage := newBench(b)
	var arrived atomic.Int64
	all := make(chan struct{})
	r := newCounter(b, func() {
		if arrived.Add(1) == int64(b.N) {
			close(all)
		}
	})
	stage.endpoint(b, r.URL)
	event, err := webhooks.NewEvent(webhooks.KindScored, uuid.NullUUID{}, time.Now(), webhooks.AttemptScored{AttemptID: "a", ExamKey: "e", PaperID: "p", Score: 50})
	if err != nil {
		b.Fatal(err)
	}
	testkit.Exec(b, stage.pool, "SELECT webhook_record_event(gen_random_uuid(), $1, NULL, $2) FROM generate_series(1, $3::int)",
		string(webhooks.KindScored), event.Body, b.N)
	w := stage.worker(b, r)
	b.ResetTimer()
	testkit.Run(b, w.Run)
	testkit.Receive(b, all, "all deliveries arrive")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

func BenchmarkBarePosts(b *testing.B) {
	r := newCounter(b, func() {})
	client := r.Client()
	if transport, ok := client.Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = maxWindow
	}
	body := bytes.Repeat([]byte("x"), 180)
	var posts sync.WaitGroup
	var begun atomic.Int64
	b.ResetTimer()
	for range maxWindow {
		posts.Go(func() {
			for begun.Add(1) <= int64(b.N) {
				request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, r.URL, bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				request.Header.Set(webhooks.SignatureHeader, webhooks.Sign([]string{testKeys}, time.Now(), body))
				answer, err := client.Do(request)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	posts.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// newCounter starts a receiver that only counts.
func newCounter(tb testing.TB, count func()) *testkit.Receiver {
	tb.Helper()
	r := testkit.StartReceiver(tb, nil)
	r.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		count()
	})
	return r
}
