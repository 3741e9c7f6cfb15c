package delivery

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/send"
)

// collect receives until all of the events have arrived, however often.
func collect(t *testing.T, r *testkit.Receiver, events []webhooks.Event) {
	t.Helper()
	missing := make(map[string]struct{}, len(events))
	for _, event := range events {
		missing[event.ID.String()] = struct{}{}
	}
	for len(missing) > 0 {
		delete(missing, r.Next(t).Header.Get("Webhook-Id"))
	}
}

func TestNothingIsLostWhenRedisForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	b.endpoint(t, r.URL)
	for range 2 {
		testkit.Run(t, b.worker(t, r).Run)
	}
	const events = 300
	for n := range events {
		b.happen(t, n)
		if n%50 == 25 {
			check.NoError(t, b.redis.Del(t.Context(), webhooks.StreamName(b.prefix)).Err())
		}
	}
	b.until(t, events, inState, "delivered")
}

func TestNothingIsLostWhenRedisIsKilledAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	b := newBenchOn(t, testkit.OpenRedis(t, server.URL(), func(o *redis.UniversalOptions) { o.MaxRetries = -1 }), "test:")
	r := testkit.StartReceiver(t, nil)
	b.endpoint(t, r.URL)
	for range 2 {
		testkit.Run(t, b.worker(t, r).Run)
	}
	events := make([]webhooks.Event, 0, 300)
	for n := range cap(events) {
		switch n {
		case 100:
			server.Kill()
		case 200:
			server.Start()
		}
		events = append(events, b.happen(t, n))
	}
	collect(t, r, events)
	b.until(t, len(events), inState, "delivered")
}

// TestStreamReturnsEachWakeUpOnce reads wake-ups as a worker does, also after Redis has lost the stream.
func TestStreamReturnsEachWakeUpOnce(t *testing.T) {
	t.Parallel()
	client, prefix := testkit.Redis(t)
	s := &stream{redis: client, name: webhooks.StreamName(prefix), logger: slog.New(slog.DiscardHandler)}
	first, second := uuid.New(), uuid.New()
	for range 2 {
		for _, field := range []any{first[:], "no endpoint", second[:]} {
			check.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.name, Values: []any{webhooks.WakeUpField, field}}).Err())
		}
		var got []uuid.UUID
		testkit.Eventually(t, "a read returns the wake-ups", func() bool {
			endpoints, err := s.read(t.Context(), ">") // the first one makes the group
			check.NoError(t, err)
			got = append(got, endpoints...)
			return len(got) >= 2
		})
		if !slices.Equal(got, []uuid.UUID{first, second}) {
			t.Errorf("got %v, want %s and %s", got, first, second)
		}
		if left := client.XLen(t.Context(), s.name).Val(); left != 0 {
			t.Errorf("%d wake-ups are left in the stream", left)
		}
		check.NoError(t, client.Del(t.Context(), s.name).Err())
	}
}

func TestWorkerProcessThatIsKilledMidDeliveryIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	r := testkit.StartReceiver(t, held.first(1))
	cfg := b.config(t, r)
	b.endpoint(t, r.URL)
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(),
		workerDatabase+"="+b.pool.Config().ConnString(), workerPrefix+"="+b.prefix, workerCA+"="+string(cfg.CAPEM))
	victim.Stderr = os.Stderr
	check.NoError(t, victim.Start())
	event := b.happen(t, 1)
	held.await(t)
	_ = victim.Process.Signal(syscall.SIGKILL)
	_ = victim.Wait()
	held.release()
	testkit.Run(t, b.workerOf(t, cfg, b.pool, b.keyring).Run)
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND lease_until > now()"); n != 1 {
		t.Errorf("%d deliveries are leased by the killed worker, want 1", n)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET lease_until = now()") // the time of its lease passes
	for range 2 {
		if id := r.Next(t).Header.Get("Webhook-Id"); id != event.ID.String() {
			t.Errorf("event %s arrived, want %s", id, event.ID)
		}
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 2")
}

func TestResultOutlivesAnOutageOfPostgres(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	r := testkit.StartReceiver(t, held.first(1))
	b.endpoint(t, r.URL)
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	b.happen(t, 1)
	held.await(t)
	restore := testkit.CutOff(t, b.pool)
	held.release()
	testkit.Eventually(t, "the attempt has ended", func() bool { return w.dispatcher.windows.idle() })
	restore()
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 1")
	b.happen(t, 2)
	b.until(t, 2, inState, "delivered")
	if n := len(r.Arrived); n != 2 {
		t.Errorf("%d requests for two events", n)
	}
}

// idle reports whether no attempt is in flight.
func (w *windows) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight == 0
}

// limits ends statements on silent connections as their time limits do, but when the test says so. It notes those without a time
// limit.
type limits struct {
	mu      sync.Mutex
	silence bool                             // it has begun
	old     map[*pgx.Conn]bool               // the connections that were opened before the silence
	running map[*pgx.Conn]context.CancelFunc // the statements on them
	// unlimited has the statements without a time limit, on any connection.
	unlimited []string
}

// connected notes a new connection.
func (l *limits) connected(conn *pgx.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old[conn] = !l.silence
}

// TraceQueryStart implements [pgx.QueryTracer]. The statement runs with the context that it returns.
func (l *limits) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, limited := ctx.Deadline(); !limited {
		l.unlimited = append(l.unlimited, data.SQL)
	} else if l.old[conn] {
		ctx, l.running[conn] = context.WithCancel(ctx)
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (l *limits) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.running[conn]; cancel != nil {
		cancel()
		delete(l.running, conn)
	}
}

// begin begins the silence of the connections that are open. One that is being opened meanwhile is not set up in time.
func (l *limits) begin(silence func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	silence()
	l.silence = true
}

// pass ends the statements that run on silent connections.
func (l *limits) pass(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unlimited) > 0 {
		t.Fatalf("statements without a time limit: %q", l.unlimited)
	}
	for _, cancel := range l.running {
		cancel()
	}
}

func TestDeliveryGoesOnAfterPostgresConnectionsWentSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	proxy := testkit.StartProxy(t, b.pool.Config().ConnString(), testkit.ProxyOptions{})
	l := &limits{old: map[*pgx.Conn]bool{}, running: map[*pgx.Conn]context.CancelFunc{}}
	cfg := testkit.Open(t, proxy.URL, SessionSettings()).Config()
	cfg.ConnConfig.Tracer = l
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a ping has no tracer
	prepare := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		l.connected(conn)
		return prepare(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	testkit.Run(t, b.workerOf(t, b.config(t, r), pool, b.keyring).Run)
	t.Cleanup(func() { proxy.Cut(true) }) // first, so that the worker and the pool wait for no silent connection
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	b.until(t, 1, inState, "delivered")
	l.begin(proxy.Silence)
	testkit.Eventually(t, "a statement is stuck", proxy.Lost)
	b.insert(t, endpoint.ID, 1)
	testkit.Eventually(t, "the second event is delivered", func() bool {
		l.pass(t)
		return testkit.Get[int](t, b.pool, inState, "delivered") == 2
	})
	r.Next(t)
}

func TestReceiverThatIsGoneIsDisabledWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	health := b.worker(t, r).health
	gone := attemptedAt(endpoint.ID, send.Result{Status: http.StatusGone, Failure: "status"})
	check.NoError(t, b.pool.QueryRow(t.Context(), "SELECT updated_at FROM webhook_endpoints").Scan(&gone[0].row.UpdatedAt))
	restore := testkit.CutOff(t, b.pool)
	health.record(gone)
	if err := health.flush(t.Context()); err == nil {
		t.Error("health was recorded without PostgreSQL")
	}
	restore()
	testkit.Eventually(t, "health is recorded", func() bool { return health.flush(t.Context()) == nil })
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
}

func TestWorkerThatStopsHandsOverWhatItHasNotBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	r := testkit.StartReceiver(t, held.first(firstWindow))
	b.endpoint(t, r.URL)
	first, second := b.worker(t, r), b.worker(t, r)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- first.Run(ctx) }()
	events := make([]webhooks.Event, 0, 20)
	for n := range cap(events) {
		events = append(events, b.happen(t, n))
	}
	for range firstWindow {
		held.await(t)
	}
	stop()
	testkit.Run(t, second.Run)
	b.until(t, len(events)-firstWindow, inState, "delivered") // while the first still waits for its receiver
	held.release()
	check.NoError(t, testkit.Receive(t, stopped, "the first worker returns"))
	b.until(t, len(events), inState, "delivered")
	if n := len(r.Arrived); n != len(events) {
		t.Errorf("%d requests for %d events", n, len(events))
	}
}

func TestTimeoutAndLeaseGraceFitIntoTheShutdownGrace(t *testing.T) {
	t.Parallel()
	if cfg := (Config{}).withDefaults(); cfg.Timeout+cfg.LeaseGrace >= 25*time.Second {
		t.Errorf("%s and %s do not fit into --shutdown-grace", cfg.Timeout, cfg.LeaseGrace)
	}
}

func TestWorkerStopsWithinItsGraceWithoutReceiverAndPostgres(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	r := testkit.StartReceiver(t, held.all)
	_, endpoint := b.endpoint(t, r.URL)
	w := b.worker(t, r)
	w.cfg.Timeout, w.cfg.LeaseGrace = 0, time.Millisecond // of the shutdown only: the sender and the leases have theirs
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	b.fill(t, endpoint.ID, 1)
	held.await(t)
	restore := testkit.CutOff(t, b.pool)
	stop()
	check.NoError(t, testkit.Receive(t, stopped, "the worker returns, although neither the receiver nor PostgreSQL does"))
	restore()
}

func TestOutliveEndsSoLongAfterItsParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(t.Context())
		longer, cancel := outlive(parent, time.Minute)
		defer cancel()
		stop()
		began := time.Now()
		<-longer.Done()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}
