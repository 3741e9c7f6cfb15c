// Package gatetest runs the gate of an API pod in a test.
package gatetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// Patience is the time limit of a call to Redis: a busy machine must not look like an outage. Tests in which Redis falls
// silent use the limits of production.
const Patience = 20 * time.Second

// PatientClient sets the options of a client with that time limit.
func PatientClient(o *redis.UniversalOptions) {
	ratelimit.ClientOptions(o)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = Patience, Patience, Patience, Patience
}

// Config are the settings of a pod's parts. Prefix is needed. A zero CallTimeout of Limits means Patience, and a zero
// BoardTimeout of Directory means that CallTimeout.
type Config struct {
	Prefix    string
	Gate      gate.Config
	Directory directory.Config
	Limits    ratelimit.Config
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
	cfg.Limits.CallTimeout = cmp.Or(cfg.Limits.CallTimeout, Patience)
	cfg.Directory.BoardTimeout = cmp.Or(cfg.Directory.BoardTimeout, cfg.Limits.CallTimeout)
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
