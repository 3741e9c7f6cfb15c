package firing

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stage is where real processes run, on a database of its own behind a way that can be cut, as that to Redis can.
type stage struct {
	t               *testing.T
	binary          string
	database        string
	db              *pgx.Conn
	postgres, redis *tap
	receiver        *httptest.Server
	// status is what the receiver answers, received how often it has.
	status, received atomic.Int64
	environment      []string
	key              string
}

var (
	encryptionKey   = bytes.Repeat([]byte{8}, 32)
	namespaceSecret = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
)

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOf(t, "sandbox")
}

// newStageOf makes a stage for an installation that is for trying things out, or for production.
func newStageOf(t *testing.T, environment string) *stage {
	t.Helper()
	s := &stage{t: t, binary: needed(t, "EXAMPREP_BINARY")}
	s.createDatabase(needed(t, "EXAMPREP_TEST_DATABASE_URL"))
	s.postgres = newTap(t, hostOf(t, s.database))
	cache := needed(t, "EXAMPREP_TEST_REDIS_URL")
	s.redis = newTap(t, hostOf(t, cache))
	s.status.Store(http.StatusOK)
	s.receiver = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(s.status.Load()))
		s.received.Add(1)
	}))
	t.Cleanup(s.receiver.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.receiver.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s.environment = append(os.Environ(),
		"DATABASE_URL="+through(t, s.database, s.postgres), "REDIS_URL="+through(t, cache, s.redis),
		"EXAMPREP_ENVIRONMENT="+environment, "EXAMPREP_NAMESPACE_SECRET="+namespaceSecret,
		"EXAMPREP_ENCRYPTION_KEYS=test:"+base64.StdEncoding.EncodeToString(encryptionKey),
		"EXAMPREP_WEBHOOK_ALLOW_CIDR=127.0.0.0/8", "EXAMPREP_WEBHOOK_CA_FILE="+authority, "EXAMPREP_TRUSTED_PROXIES=127.0.0.0/8")
	s.run("migrate")
	s.run("content", "publish", "../../../config/samples/examprep_v1alpha1_examcontent.yaml", "../../../config/samples/sample-geography-questions.yaml")
	s.key = s.newKey()
	return s
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

func hostOf(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Host
}

// through is an address by way of a tap.
func through(t *testing.T, address string, by *tap) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Host = by.listener.Addr().String()
	return parsed.String()
}

func (s *stage) createDatabase(server string) {
	s.t.Helper()
	name := "alerts_" + random()
	administrator, err := pgx.Connect(s.t.Context(), server)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := administrator.Exec(s.t.Context(), "CREATE DATABASE "+name); err != nil {
		s.t.Fatal(err)
	}
	parsed, err := url.Parse(server)
	if err != nil {
		s.t.Fatal(err)
	}
	parsed.Path = "/" + name
	s.database = parsed.String()
	if s.db, err = pgx.Connect(s.t.Context(), s.database); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.db.Close(ctx)
		if _, err := administrator.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			s.t.Error(err)
		}
		_ = administrator.Close(ctx)
	})
}

// sql runs statements past the tap.
func (s *stage) sql(statement string, arguments ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), statement, arguments...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// hold begins a transaction past the tap, as somebody who forgets to end it, and returns what ends it.
func (s *stage) hold(statements ...string) (release func()) {
	s.t.Helper()
	forgetful, err := pgx.Connect(s.t.Context(), s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = forgetful.Close(context.WithoutCancel(s.t.Context())) })
	s.t.Cleanup(release)
	for _, statement := range append([]string{"BEGIN ISOLATION LEVEL REPEATABLE READ"}, statements...) {
		if _, err := forgetful.Exec(s.t.Context(), statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
	return release
}

// run runs a command to its end.
func (s *stage) run(arguments ...string) []byte {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), s.binary, arguments...)
	command.Env = s.environment
	var failed bytes.Buffer
	command.Stderr = &failed
	printed, err := command.Output()
	if err != nil {
		s.t.Fatalf("examprep %v: %v\n%s", arguments, err, failed.Bytes())
	}
	return printed
}

func (s *stage) newKey() string {
	s.t.Helper()
	var issued struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(s.run("keys", "create", "--account", "alerts", "-o", "json"), &issued); err != nil {
		s.t.Fatal(err)
	}
	return issued.Key
}

// registerReceiver writes an endpoint of everyone's, as an administrator declares one, with its sealed secret.
func (s *stage) registerReceiver() {
	s.t.Helper()
	var id [16]byte
	_, _ = rand.Read(id[:])
	block, err := aes.NewCipher(encryptionKey)
	if err != nil {
		s.t.Fatal(err)
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		s.t.Fatal(err)
	}
	nonce := make([]byte, sealer.NonceSize())
	_, _ = rand.Read(nonce)
	secret := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	s.sql("INSERT INTO webhook_endpoints (id, url, events) VALUES ($1, $2, '{mock_attempt.submitted}')", id, s.receiver.URL+"/hook")
	s.sql("INSERT INTO webhook_secrets (id, endpoint_id, key_id, ciphertext) VALUES (gen_random_uuid(), $1, 'test', $2)",
		id, sealer.Seal(nonce, nonce, []byte(secret), id[:]))
}

// happen records events, due since some time ago.
func (s *stage) happen(count int, ago time.Duration) {
	s.t.Helper()
	s.sql("SELECT webhook_record_event(webhook_new_id(), 'mock_attempt.submitted', NULL, '{}') FROM generate_series(1, $1)", count)
	s.sql("UPDATE webhook_deliveries SET relay_at = now() - $1::interval, next_attempt_at = now() - $1::interval WHERE attempt = 0 AND state = 'pending'", ago)
}

// pod is a process that runs until it is stopped.
type pod struct {
	name, address, health, metrics string
	stop                           func()
}

// start starts a process, and waits until its metrics can be read. more are variables.
func (s *stage) start(process string, more ...string) *pod {
	s.t.Helper()
	p := &pod{name: process + "-" + random(), address: freeAddress(s.t), health: freeAddress(s.t), metrics: freeAddress(s.t)}
	s.launch(p, process, more...)
	return p
}

// launch starts the process of a pod, at first or once more.
func (s *stage) launch(p *pod, process string, more ...string) {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), s.binary, process)
	command.Env = append(append(slices.Clip(s.environment), "EXAMPREP_HEALTH_LISTEN="+p.health,
		"EXAMPREP_METRICS_LISTEN="+p.metrics, "EXAMPREP_LISTEN="+p.address), more...)
	log := &lockedBuffer{}
	command.Stderr = log
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	p.stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			s.t.Logf("%s: %v\n%s", p.name, err, log)
		}
	})
	s.t.Cleanup(p.stop)
	eventually(s.t, p.name+" has metrics", func() bool { return get(p.metrics, "/metrics") == http.StatusOK })
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write keeps what a process says.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// String is what it has said.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func get(address, path string) int {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// ask sends a request with a key from some client's address, and returns the status; 0 when there is no answer.
func (s *stage) ask(p *pod, key, client, method, path, body string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
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

// eventually waits for what a process does in its own time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	patience := time.NewTimer(2 * time.Minute)
	defer patience.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-patience.C:
			t.Fatalf("this never happened: %s", what)
		}
	}
}

// reads waits until a pod's metrics hold a line that begins so.
func reads(t *testing.T, p *pod, line string) {
	t.Helper()
	eventually(t, p.name+": "+line, func() bool {
		answer, err := http.Get("http://" + p.metrics + "/metrics")
		if err != nil {
			return false
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains("\n"+string(text), "\n"+line)
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
