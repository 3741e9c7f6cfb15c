package command

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// apiPod is `examprep api` on an installation, on ports of its own.
type apiPod struct {
	address string
	// stop ends it as SIGTERM does and returns what it returned.
	stop func() error
}

func startAPI(t *testing.T, i *installation) *apiPod {
	t.Helper()
	health := testkit.FreeAddress(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log := &addressLog{found: make(chan string, 1)}
	root := newRoot(patient())
	root.SetArgs(append([]string{
		"api", "--environment", "sandbox", "--listen", "127.0.0.1:0", "--health-listen", health, "--metrics-listen", "127.0.0.1:0",
		"--namespace-secret", base64.StdEncoding.EncodeToString(make([]byte, 32)), "--redis-url", testkit.RedisURL(t),
		"--shutdown-grace", testkit.Patience.String(),
	}, i.flags...))
	root.SetErr(log)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	pod := &apiPod{stop: sync.OnceValue(func() error { cancel(); return testkit.Receive(t, done, "the API ends") })}
	t.Cleanup(func() { _ = pod.stop() })
	select {
	case pod.address = <-log.found:
	case err := <-done:
		done <- err
		t.Fatalf("the API ended: %v", err)
	case <-time.After(testkit.Patience):
		t.Fatal("the API never served")
	}
	testkit.Eventually(t, "the API is ready", func() bool { return testkit.Answers(health, "/readyz") })
	return pod
}

type addressLog struct{ found chan string }

func (l *addressLog) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		var entry struct {
			Msg     string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			l.found <- entry.Address
		}
	}
	return len(p), nil
}

func TestAnAPIPodWritesDownTheUseOfKeysWhenItStops(t *testing.T) {
	i := newInstallation(t)
	key, _ := i.execute(t, "keys", "create", "--account", "acme")["key"].(string)
	pod := startAPI(t, i)
	const requests = 7
	for range requests {
		answer, _ := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodGet, "http://"+pod.address+"/v1/exam-prep/list", "",
			map[string]string{"Authorization": "Bearer " + key})
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("status %d", answer.StatusCode)
		}
	}
	check.NoError(t, pod.stop())
	var counted int64
	var used bool
	check.NoError(t, i.pool.QueryRow(t.Context(), `SELECT u.requests, k.last_used_at IS NOT NULL
		FROM key_usage u JOIN api_key_uses k ON k.key_id = u.key_id`).Scan(&counted, &used))
	if counted != requests || !used {
		t.Errorf("%d requests counted of %d, last use noted: %v", counted, requests, used)
	}
}

// TestProcessRefusesADatabaseOfAnotherBuild starts each on a database that other migration files made.
func TestProcessRefusesADatabaseOfAnotherBuild(t *testing.T) {
	i := newInstallation(t)
	testkit.Exec(t, i.pool, "UPDATE installation SET migrations = '0123456789abcdef'")
	for _, process := range []string{"api", "worker", "operator"} {
		root := newRoot(patient())
		root.SetArgs(append([]string{process, "--environment", "sandbox"}, i.flags...))
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		if _, outdated := errors.AsType[*postgres.SchemaError](err); !outdated || !strings.Contains(err.Error(), "drop the database") {
			t.Errorf("%s: got %v, want a SchemaError that says what to do", process, err)
		}
	}
}
