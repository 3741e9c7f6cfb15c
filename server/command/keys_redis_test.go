package command

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const redisVariable = "REDIS_URL"

func (e *env) shell(redisURL string) *testkit.Program {
	own := slices.DeleteFunc(slices.Clone(e.Env), func(setting string) bool { return strings.HasPrefix(setting, redisVariable+"=") })
	if redisURL != "" {
		own = append(own, redisVariable+"="+redisURL)
	}
	return &testkit.Program{Path: e.Path, Env: own}
}

func stop(pods []*testkit.Pod) {
	var group sync.WaitGroup
	for _, pod := range pods {
		group.Go(pod.Stop)
	}
	group.Wait()
}

// wantStatus sends a request with a key to each pod, without a pause.
func wantStatus(t *testing.T, pods []*testkit.Pod, key string, want int, when string) {
	t.Helper()
	for i, pod := range pods {
		response, body := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodGet, "http://"+pod.Address+"/v1/exam-prep/list", "",
			map[string]string{"Authorization": "Bearer " + key})
		check.Equal(t, response.StatusCode, want, "%s: status of pod %d: %s", when, i, body)
	}
}

// TestKeysCommandHoldsAtEveryPodWhateverRedisItsShellHas changes keys of two API pods from shells with another REDIS_URL.
func TestKeysCommandHoldsAtEveryPodWhateverRedisItsShellHas(t *testing.T) {
	t.Setenv(redisVariable, "")
	if err := os.Unsetenv(redisVariable); err != nil { // Setenv restores it
		t.Fatal(err)
	}
	s := newEnv(t)
	pods := []*testkit.Pod{s.start("api"), s.start("api")}
	defer stop(pods)
	for name, redisURL := range map[string]string{
		"no REDIS_URL":                 "",
		"another logical database":     strings.TrimSuffix(s.Cache, cacheDatabase) + "/14",
		"another Redis server":         testkit.StartRedis(t).URL(),
		"a Redis that is unreachable":  "redis://" + testkit.FreeAddress(t),
		"the Redis of the pods itself": s.Cache,
	} {
		t.Run(name, func(t *testing.T) {
			shell := s.shell(redisURL)
			key := shell.NewKey(t, "acme")
			wantStatus(t, pods, key, http.StatusOK, "after its creation")
			shell.Run(t, "keys", "revoke", key[:keys.PrefixLength])
			wantStatus(t, pods, key, http.StatusUnauthorized, "after its revocation")
		})
	}
}

// TestKeysOfInstallationsThatShareARedisHoldAtHomeOnly runs two installations on one logical database of Redis.
func TestKeysOfInstallationsThatShareARedisHoldAtHomeOnly(t *testing.T) {
	for name, environment := range map[string]postgres.Environment{
		"same environment": postgres.Sandbox, "another environment": postgres.Production,
	} {
		t.Run(name, func(t *testing.T) {
			database := testkit.EmptyDatabase(t)
			check.NoError(t, postgres.Migrate(t.Context(), database, environment))
			home, foreign := newEnv(t), newEnvOf(t, environment, database)
			if home.Cache != foreign.Cache || home.redisPrefix == foreign.redisPrefix {
				t.Fatalf("the installations use %s and %s, names begin with %q and %q", home.Cache, foreign.Cache, home.redisPrefix, foreign.redisPrefix)
			}
			own, other := []*testkit.Pod{home.start("api"), home.start("api")}, []*testkit.Pod{foreign.start("api")}
			defer stop(slices.Concat(own, other))
			foreign.NewKey(t, "acme") // so that both have the account
			key, copied := home.NewKey(t, "acme"), home.NewKey(t, "acme")
			copyKey(t, home, foreign, copied)
			wantStatus(t, other, key, http.StatusUnauthorized, "a foreign key, before its use at home")
			wantStatus(t, own, key, http.StatusOK, "a key at home")
			wantStatus(t, other, key, http.StatusUnauthorized, "a foreign key, after its use at home")
			wantStatus(t, slices.Concat(own, other), copied, http.StatusOK, "a key that both have")
			for _, revoked := range []string{key, copied} {
				home.Run(t, "keys", "revoke", revoked[:keys.PrefixLength])
				wantStatus(t, own, revoked, http.StatusUnauthorized, "a revoked key at home")
			}
			wantStatus(t, other, key, http.StatusUnauthorized, "a foreign key, after its revocation")
			wantStatus(t, other, copied, http.StatusOK, "a key that both had, revoked at the other installation")
		})
	}
}

// copyKey gives a key of one installation to another as well, as a copy of the database would, and waits for its pods.
func copyKey(t *testing.T, from, to *env, key string) {
	t.Helper()
	prefix := key[:keys.PrefixLength]
	hash := testkit.Get[[]byte](t, testkit.Open(t, from.Database), "SELECT hash FROM api_keys WHERE prefix = $1", prefix)
	pool := testkit.Open(t, to.Database)
	testkit.Exec(t, pool, `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT $1, id, $1, $2, $3 FROM accounts WHERE name = 'acme'`, uuid.New(), prefix, hash)
	to.Run(t, "keys", "tier", prefix, keys.DefaultTier) // returns when each pod has the key
}

// TestAPIPodWhoseKeysExceedItsBudgetFailsItsStart starts an API pod with more keys than fit into 1 MiB.
func TestAPIPodWhoseKeysExceedItsBudgetFailsItsStart(t *testing.T) {
	s := newEnv(t)
	key := s.NewKey(t, "acme")
	insertKeys(t, s.Database, 20_000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a pod that starts
	defer cancel()
	pod := testkit.NewPod(t)
	command := exec.CommandContext(ctx, s.Path, "api", "--key-directory-mib", "1",
		"--listen", pod.Address, "--health-listen", pod.Health, "--metrics-listen", pod.Metrics)
	command.Env = append(os.Environ(), s.Env...)
	output, err := command.CombinedOutput()
	failed, exited := errors.AsType[*exec.ExitError](err)
	if !exited || failed.ExitCode() != 1 {
		t.Fatalf("the pod ended with %v, want exit code 1:\n%s", err, output)
	}
	if last := output[bytes.LastIndexByte(bytes.TrimSpace(output), '\n')+1:]; !bytes.Contains(last, []byte("raise --key-directory-mib ")) {
		t.Errorf("the last line does not name the setting: %s", last)
	}
	pods := []*testkit.Pod{s.start("api", "--key-directory-mib", "4")}
	defer stop(pods)
	wantStatus(t, pods, key, http.StatusOK, "with a larger budget")
}
