package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/signin"
	"examprep.dev/hack/dev/state"
)

const (
	consoleDeliveries = 100_000
	consoleKeys       = 1_000
	consoleRecords    = 10_000
	// consoleDays is over how many days deliveries, records and requests are spread.
	consoleDays = 28
)

// consoleUsers are the persons who sign in.
func consoleUsers() []signin.User {
	users := make([]signin.User, consolePersons)
	for n := range users {
		name := fmt.Sprintf("bench%d", n)
		users[n] = signin.User{Subject: name, Email: name + "@example.com", Name: name}
	}
	return users
}

// copyDeliveries writes deliveries; its comment says which.
//
//go:embed console.sql
var copyDeliveries string

// consoleData is an account that has much to show, and a session of each owner.
type consoleData struct {
	stack      *stack
	pool       *pgxpool.Pool
	supervisor *process.Supervisor
	stopSignIn context.CancelFunc
	address    string // of the API
	issuer     string // of the sign-in provider
	hook       string // path of the endpoint that has the deliveries, below /v1/developer
	cookies    []string
}

// openConsole makes a database for the account, an API pod on it, and the sessions.
func (s *stack) openConsole(ctx context.Context) (c *consoleData, err error) {
	c = &consoleData{stack: s}
	var databaseURL string
	if databaseURL, c.pool, err = s.createDatabase(ctx, "console"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close(context.WithoutCancel(ctx))
		}
	}()
	program := s.program(databaseURL)
	if err := program.migrate(ctx); err != nil {
		return nil, err
	}
	if err := applyTiers(ctx, c.pool); err != nil {
		return nil, err
	}
	key, err := program.createKey(ctx, tier)
	if err != nil {
		return nil, err
	}
	if _, err := insertKeys(ctx, c.pool, key, consoleKeys-1); err != nil {
		return nil, err
	}
	if err := c.serve(ctx, databaseURL); err != nil {
		return nil, err
	}
	for _, user := range consoleUsers() {
		if _, err := program.run(ctx, "accounts", "add", account, "--subject", c.issuer+"#"+user.Subject); err != nil {
			return nil, err
		}
	}
	if err := c.fill(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// serve starts the sign-in provider in this process, and an API pod that sends browsers there.
func (c *consoleData) serve(ctx context.Context, databaseURL string) (err error) {
	const name, clientID = "console", "bench"
	if c.address, err = c.stack.ports.Address(ctx, name); err != nil {
		return err
	}
	at, err := c.stack.ports.Address(ctx, "signin")
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("serve the sign-in provider: %w", err)
	}
	c.issuer = "http://" + at + signin.Path
	secret, redirect := state.RandomHex(16), "http://"+c.address+"/v1/developer/callback"
	provider, err := signin.New(signin.Config{
		Issuer: c.issuer, ClientID: clientID, ClientSecret: secret, RedirectURL: redirect,
		Users: consoleUsers(),
	})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	c.stopSignIn = stop
	go func() { _ = provider.Serve(serving, listener) }() // a failure shows at the sign-in
	if c.supervisor, err = process.New(c.stack.dir.Path("log"), c.stack.dir.Path("pids"), c.stack.say); err != nil {
		return err
	}
	return c.stack.startUnder(ctx, c.supervisor, name, "api", // startPod would choose another address
		"EXAMPREP_LISTEN="+c.address, "GOMAXPROCS="+strconv.Itoa(podProcessors), "DATABASE_URL="+databaseURL, "EXAMPREP_OIDC_ISSUER="+c.issuer,
		"EXAMPREP_OIDC_CLIENT_ID="+clientID, "EXAMPREP_OIDC_CLIENT_SECRET="+secret, "EXAMPREP_OIDC_REDIRECT_URL="+redirect)
}

// fill signs the owners in, registers an endpoint, and copies what that wrote.
func (c *consoleData) fill(ctx context.Context) error {
	endpoint, err := c.signIn(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, s := range consoleRows(endpoint) {
		if _, err := c.pool.Exec(ctx, s.text, s.args...); err != nil {
			return fmt.Errorf("fill the account: %w", err)
		}
	}
	for _, text := range []string{"VACUUM (ANALYZE) webhook_events, webhook_deliveries, audit_log, key_usage", "CHECKPOINT"} {
		if err := c.stack.maintain(ctx, c.pool, text); err != nil {
			return err
		}
	}
	c.stack.say("console: %d deliveries, %d keys and %d audit records, written in %.0f s",
		consoleDeliveries, consoleKeys, consoleRecords, time.Since(began).Seconds())
	return nil
}

// signIn begins a session of each person. In the last one it registers an endpoint and sends a test event there. It returns the
// endpoint's id.
func (c *consoleData) signIn(ctx context.Context) (endpoint string, err error) {
	var owner *signin.Browser
	for _, user := range consoleUsers() {
		if owner, err = signin.SignIn(ctx, "http://"+c.address+"/v1", user.Subject); err != nil {
			return "", fmt.Errorf("sign in: %w", err)
		}
		c.cookies = append(c.cookies, owner.Cookie())
	}
	var made struct {
		ID string `json:"id"`
	}
	body := map[string]any{"url": "https://receiver.example.com/hook", "events": []string{"mock_attempt.submitted", "mock_attempt.scored"}}
	if err := owner.Call(ctx, http.MethodPost, "/webhooks", body, http.StatusCreated, &made); err != nil {
		return "", err
	}
	c.hook = "/webhooks/" + made.ID
	return made.ID, owner.Call(ctx, http.MethodPost, c.hook+"/test", nil, http.StatusAccepted, nil)
}

// statement is SQL with its arguments.
type statement struct {
	text string
	args []any
}

// consoleRows returns the statements that write the rows: partitions of the past weeks, deliveries, audit records, usage.
func consoleRows(endpoint string) []statement {
	const partitions = `
		SELECT webhook_add_partition(kind, week, week + interval '7 days')
		FROM unnest(ARRAY['events', 'deliveries', 'attempts']) kind, generate_series(1, $1::int / 7 + 1) AS n,
		     LATERAL (SELECT to_timestamp((extract(epoch FROM now())::bigint / 604800 - n) * 604800) AS week) w`
	//nolint:unqueryvet // a record has the columns of its pattern, whatever they are
	const records = `
		INSERT INTO audit_log
		SELECT made.* FROM (SELECT a FROM audit_log a WHERE account_id IS NOT NULL ORDER BY id DESC LIMIT 1) pattern,
		     generate_series(1, $1::int) n,
		     LATERAL (SELECT now() - $2::int * interval '1 day' * n / $1::int AS at) t,
		     LATERAL (SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3)
		                      || '8' || substr(md5(n::text), 4, 15))::uuid AS id) i,
		     jsonb_populate_record(pattern.a, jsonb_build_object('id', i.id, 'at', at,
		         'action', CASE n % 3 WHEN 0 THEN 'key.create' WHEN 1 THEN 'key.revoke' ELSE 'session.begin' END)) made`
	const usage = `
		INSERT INTO key_usage (key_id, day, account_id, rate_limited, requests, last_used_at)
		SELECT k.id, current_date - n, k.account_id, n, 1000 + n, now() - n * interval '1 day'
		FROM api_keys k, generate_series(1, $1::int) n`
	return []statement{
		{partitions, []any{consoleDays}},
		{copyDeliveries, []any{endpoint, consoleDeliveries, consoleDays}},
		{records, []any{consoleRecords, consoleDays}},
		{usage, []any{consoleDays}},
	}
}

// close stops the pod and the provider, and drops the database.
func (c *consoleData) close(ctx context.Context) {
	if c.supervisor != nil {
		c.supervisor.Stop()
	}
	if c.stopSignIn != nil {
		c.stopSignIn()
	}
	c.stack.dropDatabase(ctx, c.pool)
}
