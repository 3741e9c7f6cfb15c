package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"examprep.dev/charts/examprep/runbooks"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/parts"
	"examprep.dev/server/postgres"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/telemetry"
)

// process has what api, worker and operator share.
type process struct {
	flags        *processFlags
	installation postgres.Installation
	logger       *slog.Logger
	registry     *prometheus.Registry
	tracing      *telemetry.Tracing
	pool         *pgxpool.Pool
}

// open opens what every process needs, runs the process, and closes it all. The pool's size comes from the flags, not from
// options.
func (f *processFlags) open(cmd *cobra.Command, name string, options postgres.Options, run func(context.Context, *process) error) error {
	ctx := cmd.Context()
	p, err := openProcess(ctx, name, f, cmd.ErrOrStderr(), options)
	if err != nil {
		return err
	}
	defer p.close(ctx)
	return run(ctx, p)
}

// openProcess checks the shared settings, sets up logs, metrics and traces, and waits for a database of the right
// environment. Close what it returns.
func openProcess(ctx context.Context, name string, flags *processFlags, stderr io.Writer, options postgres.Options) (*process, error) {
	env, err := parseEnvironment(flags.environment)
	if err != nil {
		return nil, err
	}
	if err := cli.Require("database-url", flags.databaseURL); err != nil {
		return nil, err
	}
	if flags.poolMaxConns < 1 {
		return nil, &cli.UsageError{Err: errors.New("--pool-max-conns: must be at least 1")}
	}
	logger, err := telemetry.NewLogger(stderr, flags.logLevel)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--log-level: %w", err)}
	}
	logger = logger.With("process", name)
	redis.SetLogger(redisLog{logger})
	tracing, err := telemetry.NewTracing(ctx, "examprep-"+name, version())
	if err != nil {
		return nil, err
	}
	options.MaxConns, options.Traced = flags.poolMaxConns, tracing.Enabled
	pool, installation, err := openDatabase(ctx, func(ctx context.Context) (*pgxpool.Pool, error) {
		return postgres.Open(ctx, flags.databaseURL, options)
	}, env, logger)
	if err != nil {
		return nil, errors.Join(err, tracing.Shutdown(context.WithoutCancel(ctx)))
	}
	registry := telemetry.NewRegistry()
	telemetry.RegisterBuild(registry, name, version(), string(env))
	postgres.RegisterPool(registry, pool)
	return &process{flags: flags, installation: installation, logger: logger, registry: registry, tracing: tracing, pool: pool}, nil
}

// traceTimeout is Program.TraceTimeout's default.
const traceTimeout = 3 * time.Second

// close flushes traces and closes the pool. It takes no longer than a few seconds.
func (p *process) close(ctx context.Context) {
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(p.flags.program.TraceTimeout, traceTimeout))
	defer cancel()
	if err := p.tracing.Shutdown(flush); err != nil {
		p.logger.Warn("traces were not flushed", "error", err)
	}
	p.pool.Close()
}

// servers returns the health and metrics servers as parts; the latter also serves the runbooks. They belong to the back: a pod that finishes its work must
// still answer its probes. The metrics server also reads the gatherers in more.
func (p *process) servers(ready telemetry.Ready, more ...prometheus.Gatherer) []parts.Part {
	checks := p.flags.program.Checks
	checks.RegisterReady(p.registry, ready)
	gatherers := append(prometheus.Gatherers{p.registry}, more...)
	return []parts.Part{
		{Name: "health", Run: checks.NewHealthServer(p.flags.healthListen, ready, p.logger).Serve},
		{Name: "metrics", Run: checks.NewMetricsServer(p.flags.metricsListen, gatherers, runbooks.Serve, p.flags.pprof, p.logger).Serve},
	}
}

// registerStores registers whether the stores are up, PostgreSQL by pool, and the metrics of the Redis clients' pools. The first
// client checks Redis; a process without one does not use Redis.
func (p *process) registerStores(pool *pgxpool.Pool, clients ...redisurl.Client) {
	p.flags.program.Checks.RegisterStore(p.registry, "postgres", func(ctx context.Context) error { return postgres.Ping(ctx, pool) })
	if len(clients) > 0 {
		redisurl.RegisterPools(p.registry, clients...)
		p.flags.program.Checks.RegisterStore(p.registry, "redis", func(ctx context.Context) error { return clients[0].Ping(ctx).Err() })
	}
}

// databaseRetry is the wait between two attempts to reach a database that does not respond yet.
const databaseRetry = time.Second

// openDatabase waits until the database answers, so that pods and their database may start in any order. A database of
// the other environment, or one that this build did not migrate, ends the wait: only a person can fix that.
func openDatabase(
	ctx context.Context, open func(context.Context) (*pgxpool.Pool, error), env postgres.Environment, logger *slog.Logger,
) (*pgxpool.Pool, postgres.Installation, error) {
	for {
		pool, err := open(ctx)
		if err == nil {
			var installation postgres.Installation
			if installation, err = postgres.ReadInstallation(ctx, pool, env); err == nil {
				return pool, installation, nil
			}
			pool.Close()
		}
		var mismatch *postgres.EnvironmentError
		var schema *postgres.SchemaError
		var malformed *postgres.URLError
		if errors.As(err, &mismatch) || errors.As(err, &schema) || errors.As(err, &malformed) {
			return nil, postgres.Installation{}, err
		}
		logger.Warn("waiting for the database", "error", err)
		select {
		case <-ctx.Done():
			return nil, postgres.Installation{}, errors.Join(ctx.Err(), err)
		case <-time.After(databaseRetry):
		}
	}
}

// redisLog takes what go-redis would print by itself: failed dials and the like, which its callers report already.
type redisLog struct{ *slog.Logger }

// Printf is go-redis's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

// stamped is the version that the image's build sets by the linker; nothing else writes it.
var stamped string

// version is what the build stamped, else the module's version as the Go toolchain wrote it, "(devel)" for a build from
// a checkout without git.
func version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
