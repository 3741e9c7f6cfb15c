package main

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/hack/dev/signin"
	"examprep.dev/server/accounts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

const (
	account, subject         = "dev", "dev"
	clientID, clientSecret   = "examprep", "a secret"
	countOfDeclaredDelivered = "SELECT count(*) FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id " +
		"WHERE e.managed_by IS NOT NULL AND d.state = 'delivered'"
)

// installation is the API, the provider, a worker and a receiver, as make dev runs them.
type installation struct {
	*apitest.API

	t        *testing.T
	front    *httptest.Server // where the API is reached
	receiver *testkit.Receiver
	issuer   string
}

func start(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, receiver: testkit.StartReceiver(t, nil)}
	i.front = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", i.Address
	}})
	t.Cleanup(i.front.Close)
	redirect := i.front.URL + "/v1/developer/callback"
	i.startProvider(redirect)
	i.API = apitest.New(t, apitest.Options{Exams: []catalog.Exam{catalogtest.SampleExam()}, Developer: func(a *apitest.API) *developer.Deps {
		return a.Developer(sessions.Provider{Issuer: i.issuer, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: redirect})
	}})
	i.startWorker()
	return i
}

func (i *installation) startProvider(redirect string) {
	i.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	i.issuer = "http://" + server.Listener.Addr().String() + signin.Path
	provider, err := signin.New(signin.Config{
		Issuer: i.issuer, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: redirect,
		Users: []signin.User{{Subject: subject, Email: "dev@example.com", Name: "Dev"}},
	})
	check.NoError(i.t, err)
	server.Config.Handler = provider.Handler()
	server.Start()
	i.t.Cleanup(server.Close)
}

func (i *installation) startWorker() {
	i.t.Helper()
	client, prefix := testkit.Redis(i.t)
	worker, err := delivery.New(delivery.Config{
		Prefix: prefix, Allowed: delivery.Ranges{Declared: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, CAPEM: i.receiver.CAPEM(),
		Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience, SweepTimeout: testkit.Patience,
		RetentionTimeout: testkit.Patience,
	}, testkit.Open(i.t, i.Pool.Config().ConnString(), delivery.SessionSettings()), client, apitest.Keyring(i.t))
	check.NoError(i.t, err)
	testkit.Run(i.t, worker.Run)
}

// newSeeder returns a seeder for a new account with a member, an API key and a declared endpoint.
func (i *installation) newSeeder() *seeder {
	i.t.Helper()
	s := &seeder{
		api: i.front.URL + "/v1", account: account, subject: subject, receiverPort: "8443", hosts: ownHosts(), pool: i.Pool, now: time.Now,
		apiKey: i.NewKey(account, keys.TierSpec{Requests: 1_000_000, Period: time.Minute}),
	}
	people := accounts.NewAdministration(i.Pool, time.Now)
	_, err := people.Add(i.t.Context(), account, accounts.Person{Issuer: i.issuer, Subject: subject}, accounts.Owner)
	check.NoError(i.t, err)
	id, err := people.Ensure(i.t.Context(), account)
	check.NoError(i.t, err)
	policy := webhooks.NewAddressPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	_, err = webhooks.NewManaged(i.Pool, apitest.Keyring(i.t), policy).Apply(i.t.Context(), webhooks.ManagedEndpoint{
		Owner: "dev/default/sample", URL: i.receiver.URL, Events: []webhooks.Kind{webhooks.KindSubmitted, webhooks.KindScored},
		Account: uuid.NullUUID{UUID: id, Valid: true}, Secret: webhooks.NewSecret(),
	})
	check.NoError(i.t, err)
	return s
}

// run runs a copy of the seeder, and returns what it made.
func (i *installation) run(s *seeder) []string {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), testkit.Patience)
	defer cancel()
	again := *s
	check.NoError(i.t, again.run(ctx))
	return again.made
}

// awaitDelivered waits until the events of the new account's mock attempts arrived.
func (i *installation) awaitDelivered() {
	i.t.Helper()
	testkit.Eventually(i.t, "the events arrive", func() bool {
		return testkit.Get[int](i.t, i.Pool, countOfDeclaredDelivered) == 2*newcomers
	})
}

func TestSeedMakesEachStateOnce(t *testing.T) {
	t.Parallel()
	i := start(t)
	s := i.newSeeder()
	if made := i.run(s); len(made) == 0 {
		t.Error("nothing was made")
	}
	i.awaitDelivered()
	checkKeys(t, i)
	checkUsage(t, i)
	checkRefused(t, i, s)
	check.Equal(t, testkit.Get[int](t, i.Pool, "SELECT count(*) FROM sessions"), 0, "sessions that are left")
	before := rows(t, i)
	if made := i.run(s); len(made) > 0 {
		t.Errorf("the second run made %q", made)
	}
	check.Slices(t, rows(t, i), before, "numbers of rows after the second run")
}

// rows counts the rows of the tables that seed or its requests write.
func rows(t *testing.T, i *installation) []int {
	t.Helper()
	var counts []int
	for _, table := range []string{"api_keys", "key_usage", "key_usage_batches", "webhook_endpoints", "webhook_deliveries", "attempts", "audit_log"} {
		counts = append(counts, testkit.Get[int](t, i.Pool, "SELECT count(*) FROM "+table))
	}
	return counts
}

func checkKeys(t *testing.T, i *installation) {
	t.Helper()
	states := testkit.List[string](t, i.Pool, `
		SELECT name || CASE WHEN revoked_at < now() THEN ' revoked' WHEN rotated_at IS NOT NULL THEN ' rotated' ELSE '' END
		       || CASE WHEN expires_at > now() THEN ' expires' ELSE '' END
		FROM api_keys WHERE account_id = (SELECT id FROM accounts WHERE name = 'dev') AND name <> 'test' ORDER BY 1`)
	check.Slices(t, states, []string{"mobile app", "mobile app rotated expires", "old website revoked", "partner trial expires", "website"}, "keys")
}

func checkUsage(t *testing.T, i *installation) {
	t.Helper()
	const statement = `SELECT count(DISTINCT day) FROM key_usage WHERE requests > 0 AND day < (now() AT TIME ZONE 'UTC')::date`
	check.Equal(t, testkit.Get[int](t, i.Pool, statement), usageDays, "days with requests")
	if testkit.Get[int](t, i.Pool, "SELECT sum(rate_limited)::int FROM key_usage") == 0 {
		t.Error("no request was refused for its rate")
	}
	used := testkit.List[string](t, i.Pool, "SELECT DISTINCT k.name FROM key_usage u JOIN api_keys k ON k.id = u.key_id WHERE k.name <> 'test' ORDER BY 1")
	check.Slices(t, used, []string{"mobile app", "old website", "partner trial", "website"}, "keys that were used")
}

// checkRefused checks the deliveries to the endpoint that seed registered.
func checkRefused(t *testing.T, i *installation, s *seeder) {
	t.Helper()
	const ours = " FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE e.managed_by IS NULL"
	check.Equal(t, testkit.Get[int](t, i.Pool, "SELECT count(*)"+ours+" AND d.state = 'pending'"), 2*newcomers, "deliveries that wait")
	failed := testkit.List[string](t, i.Pool, "SELECT d.last_failure"+ours+" AND d.state = 'failed'")
	want := "refused_address"
	if s.privateHost(t.Context()) == unknownHost {
		want = "dns"
	}
	check.Slices(t, failed, []string{want}, "failures of the deliveries that failed")
	began := testkit.List[time.Time](t, i.Pool, `
		SELECT a.began_at FROM webhook_attempts a JOIN webhook_deliveries d ON d.id = a.delivery_id WHERE d.state = 'failed' ORDER BY a.attempt`)
	if len(began) != 1+len(delivery.RetryDelays()) {
		t.Fatalf("%d delivery attempts, want one and a retry for each wait", len(began))
	}
	for n, wait := range delivery.RetryDelays() {
		if got := began[n+1].Sub(began[n]); got < wait {
			t.Errorf("delivery attempt %d follows after %s, want %s or more", n+2, got, wait)
		}
	}
}

func TestSeedRotatesTheSuccessorAfterTheOverlap(t *testing.T) {
	t.Parallel()
	i := start(t)
	s := i.newSeeder()
	i.run(s)
	i.awaitDelivered()
	testkit.Exec(t, i.Pool, "UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE rotated_at IS NOT NULL")
	before := testkit.Get[int](t, i.Pool, "SELECT count(*) FROM api_keys")
	check.Slices(t, i.run(s), []string{"API keys (1)"}, "what the next run made")
	check.Equal(t, testkit.Get[int](t, i.Pool, "SELECT count(*) FROM api_keys"), before+1, "keys")
	families := testkit.Get[int](t, i.Pool, "SELECT count(DISTINCT family_id) FROM api_keys WHERE name = 'mobile app'")
	check.Equal(t, families, 1, "families of the rotated key")
}

func TestSeedNeedsItsAccount(t *testing.T) {
	t.Parallel()
	s := &seeder{account: "nobody's", pool: testkit.Database(t)}
	err := s.run(t.Context())
	if err == nil {
		t.Fatal("an account that does not exist was seeded")
	}
	check.Contains(t, err.Error(), `find the account "nobody's"`, "error")
}

func TestOnlyAHostThatCanBeRegisteredIsTaken(t *testing.T) {
	t.Parallel()
	s := &seeder{receiverPort: "8443", hosts: []string{"localhost", "127.0.0.1", "::1", "1234", "a..b"}}
	check.Equal(t, s.privateHost(t.Context()), unknownHost, "host")
}

func TestRequestsOnADayDoNotChange(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var week []int
	for n := range 7 {
		admitted, limited := requestsOn(0, 900, monday.AddDate(0, 0, n))
		again, _ := requestsOn(0, 900, monday.AddDate(0, 0, n))
		check.Equal(t, again, admitted, "requests of the same day")
		check.Equal(t, limited > 0, n == 0 || n == 3, "refused on day %d", n)
		week = append(week, admitted)
	}
	if slices.Min(week[:5]) <= slices.Max(week[5:]) || slices.Min(week) <= 0 {
		t.Errorf("requests from Monday to Sunday: %v", week)
	}
}

func TestSeedRefusesAReceiverWithoutAPort(t *testing.T) {
	t.Parallel()
	for _, receiver := range []string{"", "https://127.0.0.1/", "https://127.0.0.1:x/"} {
		err := run(t.Context(), []string{"-receiver", receiver}, t.Output())
		if err == nil {
			t.Fatalf("%q was taken", receiver)
		}
		check.Contains(t, err.Error(), "-receiver: "+`"`+receiver+`" is not a URL with a port`, "error")
	}
}
