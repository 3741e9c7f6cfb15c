package delivery

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
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

func TestWakeUpDispatchesWithoutASweep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	cfg := b.config(t, r)
	cfg.SweepInterval = time.Hour
	w := b.workerOf(t, cfg, b.pool, b.keyring)
	testkit.Run(t, w.Run)
	for range 2 { // the first sweep finds the first event at the most
		b.fill(t, endpoint.ID, 1)
		r.Next(t)
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

// limits ends statements as their time limits do, but when the test says so. A statement without a time limit goes on.
type limits struct {
	mu      sync.Mutex
	began   map[*pgx.Conn]bool // connections that were opened before the silence
	silent  bool
	running map[*pgx.Conn]context.CancelFunc
}

// connected notes a new connection.
func (l *limits) connected(conn *pgx.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began[conn] = !l.silent
}

// TraceQueryStart implements [pgx.QueryTracer]. The statement runs with the context that it returns.
func (l *limits) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, limited := ctx.Deadline(); limited && l.began[conn] {
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

// silence makes the present connections those that are silent.
func (l *limits) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = true
}

// pass ends the statements that run on silent connections.
func (l *limits) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l := &limits{began: map[*pgx.Conn]bool{}, running: map[*pgx.Conn]context.CancelFunc{}}
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
	t.Cleanup(func() { proxy.Cut(true) }) // before the pool closes silent connections, which takes long
	testkit.Run(t, b.workerOf(t, b.config(t, r), pool, b.keyring).Run)
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	b.until(t, 1, inState, "delivered")
	l.silence()
	proxy.Silence()
	testkit.Eventually(t, "a statement is stuck", proxy.Lost)
	b.fill(t, endpoint.ID, 1)
	testkit.Eventually(t, "the second event is delivered", func() bool {
		l.pass()
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
	gone := attemptedAt(endpoint.ID, result{status: http.StatusGone, failure: "status"})
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
