// Package gatetest runs the gate of an API pod in a test, on a clock that the test moves.
package gatetest

import (
	"cmp"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// PatientClient sets the options of a limiter's client whose calls have [testkit.Patience]: a busy machine must not look like an
// outage.
func PatientClient(o *redis.UniversalOptions) {
	ratelimit.ClientOptions(o)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = testkit.Patience, testkit.Patience, testkit.Patience, testkit.Patience
}

// Config are the settings of a pod's parts. Prefix is needed.
type Config struct {
	Prefix string
	// Clock is that of the test's pods and authors; nil: a new one.
	Clock *Clock
	// Production leaves clocks, timings and limits as they are in production, for tests of make soak. Otherwise a zero field of
	// Directory means Clock and [Timings], and a zero limit of a call [testkit.Patience].
	Production bool
	Gate       gate.Config
	Directory  directory.Config
	Limits     ratelimit.Config
}

// patient sets what cfg leaves open.
func (cfg *Config) patient() {
	if cfg.Clock == nil {
		cfg.Clock = NewClock()
	}
	if cfg.Directory.Clock == nil {
		cfg.Directory.Clock = cfg.Clock.Read
	}
	cfg.Directory.Timings = cmp.Or(cfg.Directory.Timings, Timings())
	cfg.Limits.CallTimeout = cmp.Or(cfg.Limits.CallTimeout, testkit.Patience)
	cfg.Directory.BoardTimeout = cmp.Or(cfg.Directory.BoardTimeout, testkit.Patience)
}

// Pod is the gate of one API pod with its parts.
type Pod struct {
	*gate.Gate

	Directory *directory.Directory
	Limiter   *ratelimit.Limiter
	// Stop ends the pod: its row in api_pods is deleted.
	Stop func()
}

// New returns a pod that does not run: it has no lease, and calls Redis for requests only.
func New(t testing.TB, pool *pgxpool.Pool, rdb redis.UniversalClient, cfg Config) *Pod {
	t.Helper()
	if cfg.Directory.Board == nil {
		cfg.Directory.Board = directory.NewRedisBoard(rdb, cfg.Prefix)
	}
	if !cfg.Production {
		cfg.patient()
	}
	live := directory.New(cfg.Directory, pool)
	cfg.Limits.Prefix, cfg.Limits.Pods = cfg.Prefix, live.Pods
	limiter := ratelimit.New(cfg.Limits, rdb)
	t.Cleanup(func() {
		limiter.Close()
		live.Close()
	})
	g, err := gate.New(cfg.Gate, live, limiter)
	check.NoError(t, err)
	return &Pod{Gate: g, Directory: live, Limiter: limiter, Stop: func() {}}
}

// Start returns a pod that runs and has a lease.
func Start(t testing.TB, pool *pgxpool.Pool, rdb redis.UniversalClient, cfg Config) *Pod {
	t.Helper()
	p := New(t, pool, rdb, cfg)
	p.Run(t)
	stopLimits := testkit.Run(t, p.Limiter.Run)
	stopKeys := p.Stop
	p.Stop = func() { stopLimits(); stopKeys() }
	return p
}

// Run keeps the pod's directory current, and returns when it has a lease. The limiter does not run.
func (p *Pod) Run(t testing.TB) {
	t.Helper()
	p.Stop = testkit.Run(t, p.Directory.Run)
	testkit.Eventually(t, "the pod has a lease on its directory of keys", p.Directory.Leased)
}
