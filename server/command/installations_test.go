package command

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/accounts"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// neighbour is an installation with an API pod, a worker, a key, a session and an attempt.
type neighbour struct {
	*client
	session string
	attempt string
	pods    []*testkit.Pod
}

// allowance is that of each key of a neighbour.
const allowance = 1000

// TestInstallationsThatShareARedisNeverMeet runs real processes of two installations on one logical database of Redis.
func TestInstallationsThatShareARedisNeverMeet(t *testing.T) {
	stages := []*env{newEnvIn(t, searchedDatabase), newEnvIn(t, searchedDatabase)}
	cache := testkit.OpenRedis(t, stages[0].Cache, nil)
	before := namesIn(t, cache)
	one, two := newNeighbour(t, stages[0]), newNeighbour(t, stages[1])

	pairs := [][2]*neighbour{{one, two}, {two, one}}
	for _, pair := range pairs {
		credentialsCountAtHome(t, pair[0], pair[1])
	}
	for _, pair := range pairs {
		eventsArriveAtHome(t, pair[0], pair[1])
	}

	adopt(t, one, two)
	for range 40 {
		one.remaining()
	}
	if drained, full := one.remaining(), two.remaining(); full != allowance-1 || drained > full-30 {
		t.Errorf("the same key in both: %d tokens left here after 41 requests, %d there after one", drained, full)
	}

	for range 40 {
		two.remaining() // pods delete full buckets
	}
	one.Run(t, "keys", "revoke", one.key[:keys.PrefixLength])
	for _, c := range []struct {
		at   *neighbour
		want int
	}{{one, http.StatusUnauthorized}, {two, http.StatusOK}} {
		status, _ := c.at.send("GET", examPath+"/overview", "", nil)
		check.Equal(t, status, c.want, "status of the same key in both after its revocation in the first (there: %t)", c.at == one)
	}
	names := namesIn(t, cache)
	stop(slices.Concat(one.pods, two.pods))
	namesBelongToOne(t, before, append(names, namesIn(t, cache)...), one, two)
}

func credentialsCountAtHome(t *testing.T, own, other *neighbour) {
	t.Helper()
	for _, c := range []struct {
		at   *neighbour
		want int
	}{{own, http.StatusOK}, {other, http.StatusUnauthorized}} {
		if status, _ := c.at.send("GET", examPath+"/overview", "", map[string]string{"Authorization": "Bearer " + own.key}); status != c.want {
			t.Errorf("a key: status %d, want %d (at its own installation: %t)", status, c.want, c.at == own)
		}
		cookie := map[string]string{"Cookie": "__Host-examprep_session=" + own.session}
		if status, _ := c.at.send("GET", "/v1/developer/session", "", cookie); status != c.want {
			t.Errorf("a session: status %d, want %d (at its own installation: %t)", status, c.want, c.at == own)
		}
	}
}

func eventsArriveAtHome(t *testing.T, own, other *neighbour) {
	t.Helper()
	testkit.Eventually(t, "both events are delivered", func() bool {
		return count(t, own.pool, "webhook_deliveries WHERE state = 'delivered'") == 2
	})
	received := own.deliveries.Bytes()
	if !bytes.Contains(received, []byte(own.attempt)) || bytes.Contains(received, []byte(other.attempt)) {
		t.Errorf("the receiver of one installation got: %s", received)
	}
}

// namesBelongToOne checks that each new name in Redis begins with the id of one installation, and that both have some of
// each kind.
func namesBelongToOne(t *testing.T, before, now []string, installations ...*neighbour) {
	t.Helper()
	kinds := make([][]string, len(installations))
	for _, name := range now {
		if _, old := slices.BinarySearch(before, name); old {
			continue
		}
		i := slices.IndexFunc(installations, func(n *neighbour) bool { return strings.HasPrefix(name, n.redisPrefix) })
		if i < 0 {
			t.Errorf("%q in Redis belongs to neither installation", name)
			continue
		}
		kinds[i] = append(kinds[i], kindOf(strings.TrimPrefix(name, installations[i].redisPrefix)))
	}
	for i, found := range kinds {
		for _, kind := range []string{"buckets", "keys", "webhooks"} {
			if !slices.ContainsFunc(found, func(k string) bool { return strings.HasPrefix(k, kind) }) {
				t.Errorf("installation %d has no name of the %s in Redis, but %q", i+1, kind, found)
			}
		}
	}
}

func newNeighbour(t *testing.T, s *env) *neighbour {
	t.Helper()
	s.defaultTier(allowance)
	pool := testkit.Open(t, s.Database)
	catalogtest.Publish(t, pool, catalogtest.Exam(privateExam, "Private exam", "B"))
	n := &neighbour{client: &client{
		env: s, pool: pool, address: testkit.FreeAddress(t), statuses: map[int]int{}, key: s.newKey(canary), learner: "anna",
	}}
	s.registerReceiver(pool)
	const issuer = "https://issuer.example"
	person := accounts.Person{Issuer: issuer, Subject: "anna"}
	_, err := accounts.NewAdministration(pool, time.Now).Add(t.Context(), canary, person, accounts.Owner)
	check.NoError(t, err)
	account := testkit.Get[uuid.UUID](t, pool, "SELECT id FROM accounts WHERE name = $1", canary)
	secret, err := parseNamespaceSecret(testkit.Secret(7)) // of the processes
	check.NoError(t, err)
	store := sessions.NewStore(pool, sessions.Config{Secret: secret, Issuer: issuer, Idle: time.Hour, Lifetime: time.Hour, Now: time.Now})
	n.session, err = store.Create(t.Context(), sessions.Session{Person: person, AccountID: account})
	check.NoError(t, err)
	n.pods = append(n.pods, s.start("api", "--listen", n.address, "--oidc-issuer", issuer, "--oidc-client-id", "examprep",
		"--oidc-redirect-url", "https://api.example/v1/developer/callback"), s.start("worker"))
	n.attempt = n.open()
	n.must(http.StatusOK, "POST", examPath+"/mock-exams/submit", n.submission(n.attempt, "B"))
	return n
}

// adopt gives a new key of one installation to another as well, as a copy of the database would, and waits for its pods.
func adopt(t *testing.T, from, to *neighbour) {
	t.Helper()
	from.key = from.newKey(canary)
	var id, family uuid.UUID
	var prefix string
	var hash []byte
	check.NoError(t, from.pool.QueryRow(t.Context(), "SELECT id, family_id, prefix, hash FROM api_keys ORDER BY id DESC LIMIT 1").Scan(&id, &family, &prefix, &hash))
	testkit.Exec(t, to.pool, `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT $1, a.id, $2, $3, $4 FROM accounts a WHERE a.name = $5`, id, family, prefix, hash, canary)
	check.NoError(t, to.store.SetTier(t.Context(), prefix, keys.DefaultTier)) // returns when each pod has the key
	to.key = from.key
}

// remaining makes a request and returns how many more the key's bucket has.
func (n *neighbour) remaining() int {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.address+examPath+"/overview", nil)
	check.NoError(n.t, err)
	request.Header.Set("Authorization", "Bearer "+n.key)
	response, err := http.DefaultTransport.RoundTrip(request)
	check.NoError(n.t, err)
	_ = response.Body.Close()
	left, err := strconv.Atoi(response.Header.Get("RateLimit-Remaining"))
	if err != nil || response.StatusCode != http.StatusOK {
		n.t.Fatalf("status %d, RateLimit-Remaining: %v", response.StatusCode, err)
	}
	return left
}

func namesIn(t *testing.T, cache redis.UniversalClient) []string {
	t.Helper()
	names, err := cache.Keys(t.Context(), "*").Result()
	check.NoError(t, err)
	slices.Sort(names)
	return names
}

func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}
