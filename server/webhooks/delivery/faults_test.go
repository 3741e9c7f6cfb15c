package delivery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"examprep.dev/api/client"
	"examprep.dev/server/postgres"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/testenv"
	"examprep.dev/server/webhooks"
)

// collect receives until all of the events have arrived, however often.
func collect(t *testing.T, r *testkit.Receiver, events []webhooks.Event) (duplicates int) {
	t.Helper()
	missing := make(map[string]struct{}, len(events))
	for _, event := range events {
		missing[event.ID.String()] = struct{}{}
	}
	for len(missing) > 0 {
		id := r.Next(t).Header.Get("Webhook-Id")
		if _, first := missing[id]; !first {
			duplicates++
		}
		delete(missing, id)
	}
	return duplicates
}

func TestNothingIsLostWhenRedisIsKilledAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := testkit.StartRedis(t)
	connection := testkit.OpenRedis(t, server.URL(), func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	b.redis = connection
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

// The variables by which a test hands a worker process what it needs.
const (
	workerDatabase = "WEBHOOKS_TEST_WORKER_DATABASE"
	workerPrefix   = "WEBHOOKS_TEST_WORKER_PREFIX"
	workerCA       = "WEBHOOKS_TEST_WORKER_CA"
)

// TestMain runs a worker instead of the tests when a test started this process to kill it.
func TestMain(m *testing.M) {
	if os.Getenv(workerDatabase) != "" {
		workUntilKilled()
	}
	os.Exit(m.Run())
}

func workUntilKilled() {
	fail := func(err error) {
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	pool, err := postgres.Open(ctx, os.Getenv(workerDatabase), postgres.Options{})
	fail(err)
	cache, err := testenv.Lookup(testkit.RedisVariable)
	fail(err)
	connection, err := redisurl.Open(cache, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	fail(err)
	ring, err := webhooks.ParseKeyring(testKeys)
	fail(err)
	cfg := Config{
		Prefix: os.Getenv(workerPrefix), AllowedRanges: loopback, CAPEM: []byte(os.Getenv(workerCA)),
		Timeout: 3 * time.Second, LeaseGrace: time.Second,
	}
	if text := os.Getenv(workerPace); text != "" {
		var p pace
		fail(json.Unmarshal([]byte(text), &p))
		p.set(&cfg)
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		go liveOnStdin()
	}
	w, err := New(cfg, pool, connection, ring)
	fail(err)
	fail(w.Run(ctx))
	stop()
	os.Exit(0)
}

func TestAWorkerProcessThatIsKilledMidDeliveryIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entered, killed := make(chan struct{}), make(chan struct{})
	r := testkit.StartReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(entered)
			<-killed
		}
	})
	cfg := b.config(t, r)
	b.endpoint(t, r.URL)
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(),
		workerDatabase+"="+b.pool.Config().ConnString(), workerPrefix+"="+b.prefix, workerCA+"="+string(cfg.CAPEM))
	victim.Stderr = os.Stderr
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	event := b.happen(t, 1)
	<-entered
	_ = victim.Process.Signal(syscall.SIGKILL)
	_ = victim.Wait()
	close(killed)
	w := b.workerOf(t, cfg, b.pool, b.keyring)
	testkit.Run(t, w.Run)
	if duplicates := collect(t, r, []webhooks.Event{event, event}); duplicates > 1 {
		t.Errorf("%d duplicates", duplicates)
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 2")
}

func TestAnOutcomeOutlivesPostgresBeingAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r := testkit.StartReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(entered)
			<-release
		}
	})
	b.endpoint(t, r.URL)
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	b.happen(t, 1)
	<-entered
	restore := testkit.CutOff(t, b.pool)
	close(release)
	testkit.Eventually(t, "the try has ended", func() bool { return w.dispatcher.windows.idle() })
	restore()
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 1")
	b.happen(t, 2)
	b.until(t, 2, inState, "delivered")
	if n := len(r.Arrived); n != 2 {
		t.Errorf("%d requests for two events", n)
	}
}

// idle reports whether no try is in flight.
func (w *windows) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight == 0
}

func TestManyHangingReceiversDelayNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hanging := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	healthy := testkit.StartReceiver(t, nil)
	b.endpoint(t, healthy.URL)
	testkit.Run(t, b.concurrentWorker(t, 256, hanging, healthy).Run) // 60 receivers could hold them all 15 times over
	// Many handshakes at once take a busy machine seconds, and a receiver that is met among them is taken to be so slow.
	b.happen(t, 0)
	healthy.Next(t)
	b.until(t, 1, inState, "delivered")
	for n := range 60 {
		b.endpoint(t, fmt.Sprintf("%s/%d", hanging.URL, n))
	}
	events := make([]webhooks.Event, 0, 50)
	for n := range cap(events) {
		events = append(events, b.happen(t, n))
	}
	if duplicates := collect(t, healthy, events); duplicates > 0 {
		t.Errorf("%d duplicates", duplicates)
	}
	testkit.Eventually(t, "a try hangs", func() bool { return len(hanging.Arrived) > 0 })
	if n := len(hanging.Arrived); n > 60*firstWindow {
		t.Errorf("%d tries hang, want at most %d", n, 60*firstWindow)
	}
}

func TestAWorkerThatStopsHandsOverWhatItHasNotBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	r := testkit.StartReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n <= firstWindow {
			<-release
		}
	})
	b.endpoint(t, r.URL)
	first, second := b.worker(t, r), b.worker(t, r)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- first.Run(ctx) }()
	events := make([]webhooks.Event, 0, 20)
	for n := range cap(events) {
		events = append(events, b.happen(t, n))
	}
	testkit.Eventually(t, "the first worker's window is full", func() bool { return len(r.Arrived) == firstWindow })
	stop()
	testkit.Run(t, second.Run)
	b.until(t, len(events)-firstWindow, inState, "delivered") // while the first still waits for its receiver
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	b.until(t, len(events), inState, "delivered")
	if n := len(r.Arrived); n != len(events) {
		t.Errorf("%d requests for %d events", n, len(events))
	}
}

func TestAnEndpointThatFailsForDaysIsDisabledWhenItFailsAgain(t *testing.T) {
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

func TestASecretThatCannotBeReadCostsNoTry(t *testing.T) {
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
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 0 AND next_attempt_at > created_at + interval '20 seconds'")
	stop()
	if unsigned := testutil.ToFloat64(w.dispatcher.metrics.unreadableSecrets); unsigned != 1 {
		t.Errorf("%v tries counted as unsigned", unsigned)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now()")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 1")
}

// TestNoPrivateAddressIsEverConnectedTo dials for real: names and spellings that a check of the URL's text may miss.
func TestNoPrivateAddressIsEverConnectedTo(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0") // every address of this machine
	if err != nil {
		t.Fatal(err)
	}
	var connected atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	send, err := newSender(nil, nil, 5*time.Second, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0",
		"localhost", "localhost.", "LOCALHOST", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
		"[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "１２７.0.0.1", "127。0。0。1",
	}
	hosts = append(hosts, machineAddresses(t)...)
	for _, host := range hosts {
		came := send.post(t.Context(), post{managed: true, url: "https://" + host + ":" + port + "/", eventID: uuid.New(), secrets: []string{"s"}})
		if !slices.Contains([]string{"refused_address", "dns", "url"}, came.failure) {
			t.Errorf("%s: %+v", host, came)
		}
	}
	if n := connected.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// machineAddresses are this machine's own addresses in private ranges, as a URL writes them.
func machineAddresses(t *testing.T) []string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]struct{})
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && (network.IP.IsPrivate() || network.IP.IsLoopback()) {
			host := network.IP.String()
			if network.IP.To4() == nil {
				host = "[" + host + "]"
			}
			found[host] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(found))
}
