package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
)

const (
	startTime = time.Minute
	askTime   = 2 * time.Second
)

// stack is the stores, the program, and the processes that are started as parts need them.
type stack struct {
	root       string // of the project
	self       string // this program, for the roles that it plays in children
	binary     string
	dir        state.Dir
	ports      *state.Ports
	supervisor *process.Supervisor
	say        func(format string, args ...any)

	databaseURL, redisURL string
	namespaceSecret       string
	encryptionKeys        string
	certificate           certificate
	// baseline has the baseline's own tables; openBaseline opens it.
	baselineURL string
	baseline    *pgxpool.Pool
	pool        *pgxpool.Pool
	redis       *redis.Client
	// api is where `examprep api` listens; "" until it was started.
	api string
	// keys are the texts of the API keys, few that of one of fewTier; none until they were made.
	keys []string
	few  string
	// receiver is the receiver of webhooks; nil until it was started.
	receiver *remote
	// metrics is where processes serve their metrics, by name.
	metrics map[string]string

	settings
}

// openStack starts the stores, migrates, and builds the program. Close what it returns.
func openStack(ctx context.Context, much settings, say func(string, ...any)) (*stack, error) {
	scratch, err := os.MkdirTemp("", "examprep-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	s := &stack{
		dir: state.Dir(scratch), say: say, namespaceSecret: state.RandomBase64(32), encryptionKeys: "bench:" + state.RandomBase64(32),
		metrics: map[string]string{}, settings: much,
	}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stack) open(ctx context.Context) (err error) {
	if err := os.Chmod(string(s.dir), 0o755); err != nil { // PostgreSQL may run as another user
		return fmt.Errorf("open a directory to PostgreSQL: %w", err)
	}
	if s.root, err = state.ProjectRoot(); err != nil {
		return err
	}
	if s.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if s.ports, err = s.dir.OpenPorts(); err != nil {
		return err
	}
	if s.supervisor, err = process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say); err != nil {
		return err
	}
	if s.certificate, err = makeCertificate(s.dir.Path("tls"), time.Now()); err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.startStores(ctx); err != nil {
		return err
	}
	if err := s.program(s.databaseURL).migrate(ctx); err != nil {
		return err
	}
	if s.pool, err = openPool(ctx, s.databaseURL); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
		return fmt.Errorf("prepare figures of statements: %w", err)
	}
	if err := s.countStatements(ctx, "none"); err != nil {
		return err
	}
	at, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return err
	}
	s.redis = redis.NewClient(at)
	return nil
}

// close stops everything and leaves nothing behind.
func (s *stack) close() {
	if s.redis != nil {
		_ = s.redis.Close()
	}
	for _, pool := range []*pgxpool.Pool{s.pool, s.baseline} {
		if pool != nil {
			pool.Close()
		}
	}
	if s.supervisor != nil {
		s.supervisor.Stop()
	}
	_ = os.RemoveAll(string(s.dir))
}

// build compiles the program as make build does, to where no other run uses it.
func (s *stack) build(ctx context.Context) error {
	s.binary = s.dir.Path("bin", "examprep")
	s.say("building bin/examprep")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", s.binary, ".")
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build examprep: %w\n%s", err, out)
	}
	return nil
}

func (s *stack) startStores(ctx context.Context) error {
	if err := servers.Require(servers.Postgres(), servers.Redis()); err != nil {
		return err
	}
	s.say("starting PostgreSQL and Redis")
	address, err := s.ports.Address(ctx, "postgres")
	if err != nil {
		return err
	}
	s.databaseURL, err = servers.StartPostgres(ctx, s.supervisor, servers.PostgresConfig{
		Data: s.dir.Path("postgres"), Address: address, Password: state.RandomHex(16), Database: "bench",
		Settings: []string{"shared_preload_libraries=pg_stat_statements"},
	})
	if err != nil {
		return err
	}
	if address, err = s.ports.Address(ctx, "redis"); err != nil {
		return err
	}
	s.redisURL, err = servers.StartRedis(ctx, s.supervisor, servers.RedisConfig{
		Data: s.dir.Path("redis"), Address: address, Password: state.RandomHex(16),
	})
	return err
}

// environment is the variables that the program's processes get.
func (s *stack) environment() []string {
	return []string{
		"DATABASE_URL=" + s.databaseURL, "REDIS_URL=" + s.redisURL, "EXAMPREP_ENVIRONMENT=sandbox",
		"EXAMPREP_NAMESPACE_SECRET=" + s.namespaceSecret, "EXAMPREP_ENCRYPTION_KEYS=" + s.encryptionKeys,
		"EXAMPREP_WEBHOOK_ALLOW_CIDR=" + loopback().String(), "EXAMPREP_WEBHOOK_CA_FILE=" + s.certificate.certFile,
	}
}

// loopback is where the receiver of webhooks is.
func loopback() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8) }

// startUnder runs one of the servers of examprep, as a process of that name, until the supervisor is stopped, and returns when
// it is ready.
func (s *stack) startUnder(ctx context.Context, supervisor *process.Supervisor, name, command string, more ...string) error {
	health, err := s.ports.Address(ctx, name+"-health")
	if err != nil {
		return err
	}
	metrics, err := s.ports.Address(ctx, name+"-metrics")
	if err != nil {
		return err
	}
	s.metrics[name] = metrics
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return supervisor.Start(ctx, process.Spec{
		Name: name, Path: s.binary, Args: []string{command}, Dir: string(s.dir),
		Env:   append(append(s.environment(), "EXAMPREP_HEALTH_LISTEN="+health, "EXAMPREP_METRICS_LISTEN="+metrics), more...),
		Ready: func(ctx context.Context) error { return answers(ctx, http.DefaultClient, "http://"+health+"/readyz") },
	})
}

// prepareAPI publishes an exam, makes keys that never run dry, and starts the API; once.
func (s *stack) prepareAPI(ctx context.Context) error {
	if s.api != "" {
		return nil
	}
	s.say("publishing an exam and making %d keys", keyCount)
	program := s.program(s.databaseURL)
	set, err := program.seed(ctx, s.pool, keyCount)
	if err != nil {
		return err
	}
	s.keys = set.all()
	if s.few, err = program.createKey(ctx, fewTier); err != nil {
		return err
	}
	s.api, err = s.startPod(ctx, processAPI)
	return err
}

// The chart's values api.replicas, the number of API pods, and api.processors, the number of cores that each uses.
const (
	podReplicas   = 2
	podProcessors = 1
)

// startPod runs `examprep api` as a process of that name and returns where it listens.
func (s *stack) startPod(ctx context.Context, name string, more ...string) (string, error) {
	return s.startPodUnder(ctx, s.supervisor, name, more...)
}

// startPodUnder is startPod, until that supervisor is stopped.
func (s *stack) startPodUnder(ctx context.Context, supervisor *process.Supervisor, name string, more ...string) (string, error) {
	address, err := s.ports.Address(ctx, name)
	if err != nil {
		return "", err
	}
	settings := append([]string{"EXAMPREP_LISTEN=" + address, "GOMAXPROCS=" + strconv.Itoa(podProcessors)}, more...)
	return address, s.startUnder(ctx, supervisor, name, "api", settings...)
}

// startMorePods starts count-1 further API pods, which run until they are stopped. It returns where they
// listen, by the names of their processes.
func (s *stack) startMorePods(ctx context.Context, count int) (addresses map[string]string, stop func(), err error) {
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return nil, nil, err
	}
	addresses = map[string]string{}
	for n := 2; n <= count; n++ {
		name := fmt.Sprintf("%s-%d", processAPI, n)
		if addresses[name], err = s.startPodUnder(ctx, supervisor, name); err != nil {
			supervisor.Stop()
			return nil, nil, err
		}
	}
	return addresses, supervisor.Stop, nil
}

// startRole runs this program in another role, with an address to listen on and more arguments, and returns the address.
func (s *stack) startRole(ctx context.Context, role, scheme string, client *http.Client, args ...string) (string, error) {
	address, err := s.ports.Address(ctx, role)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return address, s.supervisor.Start(ctx, process.Spec{
		Name: role, Path: s.self, Args: append([]string{role, address}, args...),
		Ready: func(ctx context.Context) error { return answers(ctx, client, scheme+"://"+address+"/") },
	})
}

// watched finds processes that were started under these names.
func (s *stack) watched(names ...string) ([]watched, error) {
	var list []watched
	for _, name := range names {
		text, err := os.ReadFile(s.dir.Path("pids", name+".pid"))
		if err != nil {
			return nil, fmt.Errorf("find process %s: %w", name, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("find process %s: %w", name, err)
		}
		list = append(list, watched{name: name, pid: pid, tree: name == processPostgres || name == processNginx})
	}
	return list, nil
}

// The names of processes in reports; client is this process, which makes the load.
const (
	processAPI      = "api"
	processWorker   = "worker"
	processPostgres = "postgres"
	processRedis    = "redis"
	processClient   = "client"
)

// watchWithClient starts a watch on processes of the stack and on this one.
func (s *stack) watchWithClient(names ...string) (*watch, error) {
	list, err := s.watched(names...)
	if err != nil {
		return nil, err
	}
	return startWatch(append(list, watched{name: processClient, pid: os.Getpid()})...)
}

// answers wants 200 of a GET.
func answers(ctx context.Context, client *http.Client, url string) error {
	body, err := fetch(ctx, client, http.MethodGet, url)
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(body))
	}
	return nil
}

// fetch makes a request without a body, wants 200 within askTime, and returns the answer's body.
func fetch(ctx context.Context, client *http.Client, method, url string) ([]byte, error) {
	return fetchWithin(ctx, askTime, client, method, url)
}

// fetchWithin is fetch, with another time.
func fetchWithin(ctx context.Context, most time.Duration, client *http.Client, method, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, url, response.Status)
	}
	return body, err
}
