package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/parts"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/memory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/sessions"
	"examprep.dev/server/telemetry"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// apiFlags are the settings of an API pod.
type apiFlags struct {
	processFlags
	listen          string
	namespaceSecret string
	trustedProxies  []string
	drainDelay      time.Duration
	mostOfAddress   int
	familyMaxConns  uint
	memory          memory.Overrides

	trustTraceparent bool
	encryptionKeys   string
	provider         sessions.Provider
	personalAccounts bool
	sessionIdle      time.Duration
	sessionLifetime  time.Duration
	signInContact    string
}

func newAPI(program Program) *cobra.Command {
	flags := apiFlags{processFlags: processFlags{program: program}}
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Serve the HTTP interface",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.open(cmd, "api", postgres.Options{Full: true}, func(ctx context.Context, p *process) error { return runAPI(ctx, p, &flags) })
		},
	}
	flags.register(cmd)
	flags.registerRedis(cmd)
	namespaceSecretFlag(cmd, &flags.namespaceSecret)
	cmd.Flags().StringVar(&flags.listen, "listen", ":8080", "address of the HTTP interface")
	cmd.Flags().StringSliceVar(&flags.trustedProxies, "trusted-proxies", nil,
		"CIDR ranges of trusted proxies: their X-Forwarded-For is used, and their connections are never delayed in a flood of invalid keys")
	cmd.Flags().DurationVar(&flags.drainDelay, "drain-delay", 0,
		"how long to keep accepting connections after SIGTERM, so that load balancers can drop the pod; counts toward --shutdown-grace")
	flags.registerMemory(cmd)
	cmd.Flags().IntVar(&flags.mostOfAddress, "max-connections-per-address", 0,
		"maximum connections per client address (IPv6: per /64), trusted proxies exempt; further ones get 503. 0: no limit; keep 0 behind a load balancer missing from --trusted-proxies")
	cmd.Flags().UintVar(&flags.familyMaxConns, "family-max-conns", 0,
		"maximum connections to PostgreSQL that history reads of one key family, or console calls of one account, use at once; further calls wait. 0: a quarter of the pool")
	cmd.Flags().BoolVar(&flags.trustTraceparent, "trust-traceparent", false,
		"continue the trace of the header traceparent; set it only behind an ingress that makes or checks this header. false: the span links to that trace")
	flags.registerSignIn(cmd)
	return cmd
}

func (f *apiFlags) registerMemory(cmd *cobra.Command) {
	for _, flag := range []struct {
		target      *uint
		name, usage string
	}{
		{&f.memory.CacheMiB, "cache-mib", "memory for papers and answer keys, in MiB; 0: 25 % of the memory limit"},
		{&f.memory.KeyDirectoryMiB, "key-directory-mib", "memory for the directory of active API keys, in MiB, about 100 bytes a key. " +
			"A pod whose keys need more does not start. 0: 15 % of the memory limit"},
		{&f.memory.CompressedMiB, "compressed-mib", "memory for compressed responses that are kept, in MiB; 0: 5 % of the memory limit"},
		{&f.memory.BodyMiB, "body-mib", "memory for request bodies, their reading and unsent responses together, in MiB, at least 18; requests without room get 503. 0: 12 % of the memory limit"},
		{&f.memory.MaxConnections, "max-connections", "maximum connections at once; a further one replaces one that waits, else it gets 503. 0: as many as 23 % of the memory limit holds"},
	} {
		cmd.Flags().UintVar(flag.target, flag.name, 0, flag.usage)
	}
}

// apiSettings are the settings that had to be parsed.
type apiSettings struct {
	secret []byte
	http   httpapi.Config
	cache  read.SnapshotConfig
	memory memory.Budget
}

func (f *apiFlags) parse() (apiSettings, error) {
	var settings apiSettings
	var err error
	if settings.secret, err = parseNamespaceSecret(f.namespaceSecret); err != nil {
		return settings, err
	}
	proxies, err := parsePrefixes("trusted-proxies", f.trustedProxies)
	if err != nil {
		return settings, err
	}
	if f.drainDelay+cutTime >= f.shutdownGrace {
		return settings, &cli.UsageError{Err: fmt.Errorf("--drain-delay: leaves nothing of the shutdown grace of %s", f.shutdownGrace)}
	}
	if settings.memory, err = f.memory.Divide(memory.Limit()); err != nil {
		return settings, &cli.UsageError{Err: err}
	}
	cache := uint64(settings.memory.Cache)
	settings.cache = read.SnapshotConfig{PaperCacheBytes: cache / 5 * 4, KeyCacheBytes: cache / 5, LoadTimeout: f.program.StoreTimeout}
	timeout := f.program.RequestTimeout
	settings.http = httpapi.Config{
		MaxConnections: settings.memory.Connections, MaxBodyMemory: int(settings.memory.Bodies), CompressedBytes: int(settings.memory.Compressed),
		TrustedProxies: proxies, MaxConnectionsPerAddress: f.mostOfAddress, TrustTraceparent: f.trustTraceparent,
		ReadTimeout: timeout, HandleTimeout: timeout, WriteTimeout: timeout, IdleTimeout: timeout,
		DrainDelay: f.drainDelay, ShutdownGrace: f.shutdownGrace - f.drainDelay - cutTime,
	}
	return settings, cli.Require("redis-url", f.redisURL)
}

// runAPI wires an API pod. The back parts keep the catalogue and the keys current and write the use of keys; the front
// takes requests.
func runAPI(ctx context.Context, p *process, flags *apiFlags) error {
	settings, err := flags.parse()
	if err != nil {
		return err
	}
	settings.memory.Log(p.logger)
	gateClient, err := redisurl.Open(flags.redisURL, flags.program.limiterOptions)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	defer func() { _ = gateClient.Close() }()

	settings.cache.Registerer = p.registry
	snapshot, err := read.OpenSnapshot(ctx, p.pool, p.logger, settings.cache)
	if err != nil {
		return err
	}
	background, err := postgres.Separate(ctx, p.pool, backgroundConns)
	if err != nil {
		return err
	}
	defer background.Close()
	bulkhead := postgres.NewBulkhead(p.registry, p.pool, flags.familyMaxConns)
	wakeClient, err := redisurl.Open(flags.redisURL, nil)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	defer func() { _ = wakeClient.Close() }()
	notifier := webhooks.NewNotifier(wakeClient, p.installation.RedisPrefix(), p.logger)
	meter := usage.NewMeter(background, usage.MeterConfig{
		Interval: meterInterval, RollUpAge: rollUpAge, Registerer: p.registry,
		FlushTimeout: flags.program.StoreTimeout, LastFlushTime: flags.program.StoreTimeout, LockTimeout: flags.program.StoreTimeout,
	})
	// The meter writes its counts while the front drains, because little time is left at the very end.
	stopHastening := context.AfterFunc(ctx, meter.RequestFlush)
	defer stopHastening()
	guard, err := p.openGate(background, settings.memory, gateClient, meter.Count)
	if err != nil {
		return err
	}
	defer guard.close()
	papers := attempts.NewPapers(snapshot)
	service, err := attempts.NewService(attempts.Config{ // its batches outlast their callers
		NamespaceSecret: settings.secret, Now: guard.live.DatabaseTime, Bulkhead: bulkhead, Registerer: p.registry,
		BatchTimeout: flags.program.StoreTimeout, LockTimeout: flags.program.StoreTimeout,
	}, p.pool, papers, notifier)
	if err != nil {
		return err
	}
	defer service.Close()
	developer, upkeep, err := newDeveloper(p, flags, settings.secret, background, bulkhead, notifier)
	if err != nil {
		return err
	}
	server := httpapi.New(settings.http, httpapi.Deps{
		Gate: guard.gate, Catalog: snapshot, Attempts: service, Developer: developer,
		Logger: p.logger, Registerer: p.registry, Tracer: p.tracing.Tracer(), Draw: p.tracing.Sample,
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	p.logger.Info("serving", "address", listener.Addr().String(), "environment", p.installation.Environment, "version", version())
	p.registerStores(background, redisurl.Client{Name: "gate", UniversalClient: gateClient}) // stores are checked at each scrape
	back := append(p.servers(readyToServe(ctx, snapshot, guard.live)),                       // readiness is asked at each scrape
		parts.Part{Name: "catalogue", Run: snapshot.Run}, parts.Part{Name: "keys", Run: guard.live.Run}, parts.Part{Name: "limits", Run: guard.limiter.Run}, parts.Part{Name: "notifier", Run: notifier.Run}, parts.Part{Name: "usage", Run: meter.Run})
	back = append(back, upkeep...)
	front := []parts.Part{{Name: "http", Run: func(ctx context.Context) error { return server.Serve(ctx, listener) }}}
	return parts.Run(ctx, p.logger, flags.shutdownGrace, front, back)
}

// guard is the gate with the parts that must run for it.
type guard struct {
	gate    *gate.Gate
	live    *directory.Directory
	limiter *ratelimit.Limiter
}

// openGate returns the gate of an API pod; close it after the last request. used is called with the key of each request.
func (p *process) openGate(pool *pgxpool.Pool, parts memory.Budget, rdb redis.UniversalClient, used func(uuid.UUID, bool)) (*guard, error) {
	prefix := p.installation.RedisPrefix()
	live := directory.New(directory.Config{
		Budget: int(parts.Directory), BudgetSetting: "--key-directory-mib", Board: directory.NewRedisBoard(rdb, prefix),
		Timings: p.flags.program.Timings, Registerer: p.registry, Logger: p.logger,
	}, pool)
	limiter := ratelimit.New(ratelimit.Config{
		Prefix: prefix, Pods: live.Pods, Queue: parts.Connections, CallTimeout: p.flags.program.StoreTimeout, Registerer: p.registry, Logger: p.logger,
	}, rdb)
	gates, err := gate.New(gate.Config{OnUse: used, Registerer: p.registry}, live, limiter)
	if err != nil {
		return nil, err
	}
	return &guard{gate: gates, live: live, limiter: limiter}, nil
}

// limiterOptions are the options of the rate limiter's client.
func (p Program) limiterOptions(o *redis.UniversalOptions) {
	ratelimit.ClientOptions(o)
	o.DialTimeout, o.PoolTimeout = cmp.Or(p.StoreTimeout, o.DialTimeout), cmp.Or(p.StoreTimeout, o.PoolTimeout)
	o.ReadTimeout, o.WriteTimeout = cmp.Or(p.StoreTimeout, o.ReadTimeout), cmp.Or(p.StoreTimeout, o.WriteTimeout)
}

func (g *guard) close() {
	g.limiter.Close()
	g.live.Close()
}

// readyToServe reports a pod as ready once the catalogue and the keys are loaded, until life ends, while it can answer
// for keys.
func readyToServe(life context.Context, snapshot *read.Snapshot, live *directory.Directory) telemetry.Ready {
	return func(ctx context.Context) error {
		if life.Err() != nil {
			return errStopping
		}
		if !snapshot.Ready() {
			return errors.New("the catalogue is not loaded yet")
		}
		return live.Ready(ctx)
	}
}

// backgroundConns is the number of connections for work that must not wait behind requests: confirming changes of keys, writing
// usage, notifying workers, and probing PostgreSQL. Each takes milliseconds.
const backgroundConns = 4

// cutTime is kept of the shutdown grace for cutting what has not ended, and for the back parts to stop.
const cutTime = 3 * time.Second

const (
	// meterInterval is how often a pod writes the use of keys. A killed pod loses the counts of one interval.
	meterInterval = 10 * time.Second
	// rollUpAge makes usage include requests within a minute: up to 10 s until they are written, 15 s until their batch is
	// old enough, and up to 5 s until a pod looks.
	rollUpAge = 15 * time.Second
)

var errStopping = errors.New("stopping")
