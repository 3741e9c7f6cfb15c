package firing

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// env is an installation whose proxies and receiver can fail.
type env struct {
	*testkit.Installation

	t        *testing.T
	db       *pgx.Conn // past the proxy
	receiver *testkit.Receiver
	key      string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvOf(t, "sandbox")
}

func newEnvOf(t *testing.T, environment string) *env {
	t.Helper()
	s := &env{t: t, receiver: testkit.StartReceiver(t, nil)}
	s.Installation = testkit.NewInstallation(t, needed(t, "EXAMPREP_BINARY"), environment, testkit.EmptyDatabase(t), testkit.RedisURL(t), s.receiver.Server)
	s.Env = append(s.Env, "EXAMPREP_TRUSTED_PROXIES=127.0.0.0/8")
	s.db = s.connect()
	s.Run(t, "migrate")
	s.Run(t, "content", "publish", "../../../config/samples/examprep_v1alpha1_examcontent.yaml", "../../../config/samples/sample-geography-questions.yaml")
	s.key = s.NewKey(t, "alerts")
	return s
}

func (s *env) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.Database)
	check.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) })
	return conn
}

func needed(t *testing.T, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Fatalf("%s is not set: run this by make alerts", variable)
	}
	return value
}

func random() string {
	var bytes [6]byte
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// hold begins a transaction past the proxy, and returns a function that ends it.
func (s *env) hold(statements ...string) (release func()) {
	s.t.Helper()
	forgetful := s.connect()
	for _, statement := range append([]string{"BEGIN ISOLATION LEVEL REPEATABLE READ"}, statements...) {
		testkit.Exec(s.t, forgetful, statement)
	}
	return sync.OnceFunc(func() { _ = forgetful.Close(context.WithoutCancel(s.t.Context())) })
}

// registerReceiver writes an endpoint of everyone's, as an administrator declares one, with its sealed secret.
func (s *env) registerReceiver() {
	s.t.Helper()
	var id [16]byte
	_, _ = rand.Read(id[:])
	block, err := aes.NewCipher(bytes.Repeat([]byte{8}, 32))
	check.NoError(s.t, err)
	sealer, err := cipher.NewGCM(block)
	check.NoError(s.t, err)
	nonce := make([]byte, sealer.NonceSize())
	_, _ = rand.Read(nonce)
	secret := "whsec_" + testkit.Secret(9)
	testkit.Exec(s.t, s.db, "INSERT INTO webhook_endpoints (id, url, events, managed_by) VALUES ($1, $2, '{mock_attempt.submitted}', 'test/ns/receiver')", id, s.receiver.URL+"/hook")
	testkit.Exec(s.t, s.db, "INSERT INTO webhook_secrets (id, endpoint_id, key_id, ciphertext) VALUES (gen_random_uuid(), $1, 'test', $2)",
		id, sealer.Seal(nonce, nonce, []byte(secret), id[:]))
}

// happen records events in one transaction, due since some time ago.
func (s *env) happen(count int, ago time.Duration) {
	s.t.Helper()
	testkit.Exec(s.t, s.db, "BEGIN")
	testkit.Exec(s.t, s.db, "SELECT webhook_record_event(uuidv7(), 'mock_attempt.submitted', NULL, '{}') FROM generate_series(1, $1)", count)
	s.becomeDue(ago)
	testkit.Exec(s.t, s.db, "COMMIT")
}

// becomeDue makes each delivery that was not tried due since some time ago.
func (s *env) becomeDue(ago time.Duration) {
	s.t.Helper()
	testkit.Exec(s.t, s.db, "UPDATE webhook_deliveries SET next_attempt_at = now() - $1::interval WHERE attempt = 0 AND state = 'pending'", ago)
}

type pod struct {
	*testkit.Pod

	name string
}

// start starts a process, and waits until its metrics can be read. more are variables.
func (s *env) start(process string, more ...string) *pod {
	s.t.Helper()
	p := &pod{Pod: testkit.NewPod(s.t), name: process + "-" + random()}
	p.MayFail = true // many are stopped while a store is unavailable
	s.launch(p, process, more...)
	return p
}

func (s *env) launch(p *pod, process string, more ...string) {
	s.t.Helper()
	p.Start(s.t, s.Program, more, process)
	testkit.Eventually(s.t, p.name+" has metrics", func() bool { return testkit.Answers(p.Metrics, "/metrics") })
}

// ask sends a request with a key from some client's address, and returns the status; 0 when there is no answer.
func (s *env) ask(p *pod, key, client, method, path, body string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+p.Address+path, strings.NewReader(body))
	check.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("X-Forwarded-For", client)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func reads(t *testing.T, p *pod, line string) {
	t.Helper()
	testkit.Eventually(t, p.name+": "+line, func() bool { return strings.Contains("\n"+p.Scrape(), "\n"+line) })
}

// reaches waits until a series of the process has at least a value, which goes on growing.
func reaches(t *testing.T, p *pod, series string, least float64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%s: %s >= %v", p.name, series, least), func() bool {
		for line := range strings.Lines(p.Scrape()) {
			if name, text, found := strings.Cut(strings.TrimSpace(line), " "); found && name == series {
				value, err := strconv.ParseFloat(text, 64)
				return err == nil && value >= least
			}
		}
		return false
	})
}
