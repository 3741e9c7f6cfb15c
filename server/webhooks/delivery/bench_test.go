package delivery

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks"
)

// BenchmarkDeliveries measures a worker that finds b.N deliveries for one endpoint, every state change in Postgres.
// BenchmarkBarePosts, beside it, is what the same posts cost without a worker.
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
	<-all
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

// newCounter is a receiver that only counts.
func newCounter(tb testing.TB, count func()) *testkit.Receiver {
	tb.Helper()
	r := testkit.StartReceiver(tb, nil)
	r.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		count()
	})
	return r
}
