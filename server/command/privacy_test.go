package command

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// learnerReferences are as distinctive as they are different in what encodings do to them.
var learnerReferences = []string{
	"kowalska-7f3a9c2e-anna-b81d55f0",
	"b5d01c77+exam@anna-kowalska.example-9e21",
	"Łukasiewicz-学生-🎓-Zoë-Őrség",
	`quo"te\back/slash<tag>&amp-x7Z9-{}'`,
	"470011988227733100",
	strings.Repeat("Xq9", 53) + "Z", // as long as a reference may be
	"50%41pct%2Fenc%zz-7c1f9",
	"  sp4c3d out 61f0aa t41l  ",
}

const (
	privateExam, privatePaper = "xx-private", "xx-private-2023"
	examPath                  = "/v1/exam-prep/" + privateExam
	// canary is what must be found where a learner reference must not: it proves that the search looks there.
	canary = "canary-5e11f0"
)

var (
	namespaceSecret = testkit.Secret(7)
	encryptionKeys  = "test:" + testkit.Secret(8)
)

// TestALearnerReferenceIsNowhere plays everything that a client can do with a learner reference, right and wrong,
// against real processes, and then looks for it in all that they wrote, sent or keep.
func TestALearnerReferenceIsNowhere(t *testing.T) {
	s := newEnvIn(t, searchedDatabase)
	s.defaultTier(1_000_000)
	pool := testkit.Open(t, s.Database)
	catalogtest.Publish(t, pool, catalogtest.Exam(privateExam, "Private exam", "B"))
	c := &client{env: s, pool: pool, address: testkit.FreeAddress(t), statuses: map[int]int{}}
	keys := make([]string, len(learnerReferences))
	for i := range keys {
		keys[i] = s.newKey(canary)
	}
	s.registerReceiver(pool)
	api := s.start("api", "--listen", c.address)
	for i, learner := range learnerReferences {
		c.key, c.learner = keys[i], learner
		c.behaves()
		c.blunders()
		c.blundersInHTTP()
	}
	c.meetsTrouble(api)
	c.isLimited()
	c.leavesAnAttempt()
	worker := s.start("worker")
	testkit.Eventually(t, "the worker closed the attempt", func() bool {
		return bytes.Contains(worker.Log.Bytes(), []byte("closed overdue attempts"))
	})
	testkit.Eventually(t, "all events are delivered", func() bool { return count(t, pool, "webhook_deliveries WHERE state <> 'delivered'") == 0 })
	for _, status := range []int{200, 400, 401, 404, 405, 413, 415, 429, 500, 503} {
		if c.statuses[status] == 0 {
			t.Errorf("no request was answered %d: %v", status, c.statuses)
		}
	}
	places := map[string][]byte{"metrics of the api": []byte(api.Scrape()), "metrics of the worker": []byte(worker.Scrape())}
	api.Stop()
	worker.Stop()
	places["log of the api"], places["log of the worker"] = api.Log.Bytes(), worker.Log.Bytes()
	places["traces"], places["deliveries"] = s.spans.Bytes(), s.deliveries.Bytes()
	places["what was said to Postgres"], places["what was said to Redis"] = s.Postgres.Traffic().Bytes(), s.Redis.Traffic().Bytes()
	places["database dump"], places["statistics"] = s.dumpDatabase(), databaseStatistics(t, pool)
	places["Redis"] = s.dumpRedis()
	mustHoldCanaries(t, places, c.attempts)
	for place, contents := range places {
		for _, learner := range learnerReferences {
			if found := search(contents, learner); found != "" {
				t.Errorf("%s has %.40q %s", place, learner, found)
			}
		}
	}
}

// mustHoldCanaries checks that each place holds what was put there, so that finding nothing else means something.
func mustHoldCanaries(t *testing.T, places map[string][]byte, attempts []string) {
	t.Helper()
	attempt := attempts[0]
	binary := uuid.MustParse(attempt)
	for place, wanted := range map[string][]string{
		"metrics of the api":        {`operation="submitMockAttempt"`},
		"metrics of the worker":     {"examprep_webhook"},
		"log of the api":            {canary, `"operation":"openMockPaper"`, `"status":500`, `"status":503`},
		"log of the worker":         {"closed overdue attempts"},
		"traces":                    {canary, "openMockPaper"},
		"deliveries":                {attempt, "mock_attempt.scored", "mock_attempt.submitted"},
		"what was said to Postgres": {string(binary[:]), privatePaper},
		"what was said to Redis":    {"buckets"},
		"database dump":             {attempt, canary, privatePaper},
		"statistics":                {privatePaper},
		"Redis":                     {canary + " string", canary + " field", canary + " value", canary + " element", canary + " member", canary + " scored", canary + " entry"},
	} {
		contents, ok := places[place]
		for _, text := range wanted {
			if !ok || !bytes.Contains(contents, []byte(text)) {
				t.Errorf("%s (%d bytes) lacks %q: it was not looked into", place, len(contents), text)
			}
		}
	}
	check.Equal(t, len(places), 11, "places were searched")
}

func (e *env) registerReceiver(pool *pgxpool.Pool) {
	e.t.Helper()
	keyring, err := webhooks.ParseKeyring(encryptionKeys)
	check.NoError(e.t, err)
	account := testkit.Get[uuid.UUID](e.t, pool, "SELECT id FROM accounts WHERE name = $1", canary)
	endpoints := webhooks.NewManaged(pool, keyring, webhooks.NewAddressPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}))
	_, err = endpoints.Apply(e.t.Context(), webhooks.ManagedEndpoint{
		Owner: "test", Account: uuid.NullUUID{UUID: account, Valid: true}, URL: e.receiver.URL + "/hook",
		Events: []webhooks.Kind{webhooks.KindSubmitted, webhooks.KindScored}, Secret: webhooks.NewSecret(),
	})
	check.NoError(e.t, err)
}

func count(t *testing.T, pool *pgxpool.Pool, from string) int {
	t.Helper()
	return testkit.Get[int](t, pool, "SELECT count(*) FROM "+from)
}

func (e *env) dumpDatabase() []byte {
	e.t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		if len(installed) == 0 {
			e.t.Fatal("pg_dump, which comes with PostgreSQL, is needed")
		}
		program = installed[len(installed)-1]
	}
	dump, err := exec.CommandContext(e.t.Context(), program, "--dbname", e.Database).Output()
	check.NoError(e.t, err)
	return dump
}

// databaseStatistics returns what PostgreSQL stores in addition to the tables: samples of their values, and statements that
// ran.
func databaseStatistics(t *testing.T, pool *pgxpool.Pool) []byte {
	t.Helper()
	testkit.Exec(t, pool, "ANALYZE")
	var all bytes.Buffer
	views := []string{"pg_stats", "pg_stat_activity", "pg_prepared_statements"}
	if count(t, pool, "pg_extension WHERE extname = 'pg_stat_statements'") > 0 {
		views = append(views, "pg_stat_statements")
	}
	for _, view := range views {
		for _, row := range testkit.List[string](t, pool, "SELECT v::text FROM "+view+" v") {
			all.WriteString(row + "\n")
		}
	}
	return all.Bytes()
}

// dumpRedis is every key of the logical database with its value, and one of each type that was put there to be found.
func (e *env) dumpRedis() []byte {
	e.t.Helper()
	ctx := e.t.Context()
	client, err := redisurl.Open(e.Cache, nil)
	check.NoError(e.t, err)
	defer func() { _ = client.Close() }()
	for _, err := range []error{
		client.Set(ctx, e.redisPrefix+"canary:string", canary+" string", 0).Err(),
		client.HSet(ctx, e.redisPrefix+"canary:hash", canary+" field", canary+" value").Err(),
		client.RPush(ctx, e.redisPrefix+"canary:list", canary+" element").Err(),
		client.SAdd(ctx, e.redisPrefix+"canary:set", canary+" member").Err(),
		client.ZAdd(ctx, e.redisPrefix+"canary:zset", redis.Z{Score: 1, Member: canary + " scored"}).Err(),
		client.XAdd(ctx, &redis.XAddArgs{Stream: e.redisPrefix + "canary:stream", Values: []string{"entry", canary + " entry"}}).Err(),
	} {
		check.NoError(e.t, err)
	}
	var all bytes.Buffer
	var ours []string
	keys := client.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		_, _ = fmt.Fprintln(&all, keys.Val(), e.valueOf(client, keys.Val()))
		if strings.HasPrefix(keys.Val(), e.redisPrefix) {
			ours = append(ours, keys.Val())
		}
	}
	check.NoError(e.t, keys.Err())
	check.NoError(e.t, client.Del(ctx, ours...).Err())
	return all.Bytes()
}

func (e *env) valueOf(client redis.UniversalClient, key string) any {
	e.t.Helper()
	ctx := e.t.Context()
	var value any
	kind, err := client.Type(ctx, key).Result()
	if err == nil {
		switch kind {
		case "string":
			value, err = client.Get(ctx, key).Result()
		case "hash":
			value, err = client.HGetAll(ctx, key).Result()
		case "list":
			value, err = client.LRange(ctx, key, 0, -1).Result()
		case "set":
			value, err = client.SMembers(ctx, key).Result()
		case "zset":
			value, err = client.ZRange(ctx, key, 0, -1).Result()
		case "stream":
			value, err = client.XRange(ctx, key, "-", "+").Result()
		case "none": // it expired
		default:
			e.t.Fatalf("%s is of type %s, which nobody looks into", key, kind)
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) { // it expired meanwhile
		e.t.Fatal(err)
	}
	return value
}
