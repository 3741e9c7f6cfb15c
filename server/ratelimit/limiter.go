package ratelimit

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"examprep.dev/server/batch"
)

// Config holds the settings of a [Limiter]. The zero value of each field means its default.
type Config struct {
	// Prefix begins every name in Redis: the installation's.
	Prefix string
	// Pods returns the number of pods that share the buckets while Redis is not used; less than 1 means 1. nil: always 1.
	Pods func() int
	// CallTimeout bounds one call to Redis (250 ms), and so the time that an outage goes unnoticed.
	CallTimeout time.Duration
	// InFlight is the maximum number of script calls at once (2). More of them make smaller batches.
	InFlight int
	// BatchSize is the maximum number of requests in a script call (128), at most 256.
	BatchSize int
	// Queue is the maximum number of requests that wait (8192). A further request gets a [*batch.FullError].
	Queue int
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger gets transitions between Redis and local buckets; nil discards them.
	Logger *slog.Logger
	// Now is the clock of local buckets; nil for time.Now.
	Now func() time.Time
}

const (
	defaultCallTimeout = 250 * time.Millisecond
	defaultInFlight    = 2
	defaultBatchSize   = 128
	maxBatchSize       = 256
	defaultQueue       = 8192
	// beat is the time between two probes of a Redis that failed, and between two steps of the purge.
	beat = 250 * time.Millisecond
)

func (c Config) withDefaults() Config {
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.InFlight = cmp.Or(c.InFlight, defaultInFlight)
	c.BatchSize = min(cmp.Or(c.BatchSize, defaultBatchSize), maxBatchSize)
	c.Queue = cmp.Or(c.Queue, defaultQueue)
	if c.Pods == nil {
		c.Pods = func() int { return 1 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// ClientOptions sets what the limiter's client needs, for redisurl.Open. The client never repeats a command: a script that ran
// and whose reply was lost would take its tokens twice. Timeouts are short, because requests wait. Each limiter needs a
// client of its own: it keeps [Config.InFlight] connections.
func ClientOptions(o *redis.UniversalOptions) {
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = defaultCallTimeout, defaultCallTimeout, defaultCallTimeout, defaultCallTimeout
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.PoolSize = 2*defaultInFlight + 4 // calls, probes and the purge
	o.ConnMaxIdleTime = 5 * time.Minute
	o.Protocol = 2 // with 3 the client searches each reply for messages that were not requested
	// Left on, go-redis 9.23 writes to options that other connections read: a data race.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

type request struct {
	id   ID
	rate Rate
}

type call = batch.Call[request, Result]

// Limiter takes tokens from buckets. [New] makes one; it must be closed.
type Limiter struct {
	cfg     Config
	redis   *store
	slots   []slot
	local   *localBuckets
	batches *batch.Batcher[request, Result]
	metrics *metrics
	// degraded reports whether Redis is not used. failed is the hash whose call failed then.
	degraded atomic.Bool
	failed   atomic.Int32
}

// New returns a limiter on a client made with [ClientOptions], which the caller closes after the limiter. Redis need not be
// reachable.
func New(cfg Config, rdb redis.UniversalClient) (*Limiter, error) {
	cfg = cfg.withDefaults()
	local, err := newLocalBuckets(cfg.Pods)
	if err != nil {
		return nil, err
	}
	l := &Limiter{cfg: cfg, redis: newStore(cfg.Prefix, rdb, cfg.Now), slots: make([]slot, cfg.InFlight), local: local}
	l.batches = batch.New(batch.Config[request, Result]{
		Size: cfg.BatchSize, InFlight: cfg.InFlight, Queue: cfg.Queue, Run: l.run,
	})
	l.metrics = newMetrics(cfg.Registerer, l)
	return l, nil
}

// Take takes a token from a bucket, or says when the next one comes. The error is a [*batch.FullError] when too many
// requests wait, a [*batch.AbandonedError] when ctx ends first, or a [*batch.ClosedError].
func (l *Limiter) Take(ctx context.Context, id ID, r Rate) (Result, error) {
	switch {
	case r.requests == 0:
		return Result{}, nil
	case l.degraded.Load():
		return l.local.take(id, r, l.cfg.Now()), nil
	default:
		return l.batches.Do(ctx, request{id: id, rate: r})
	}
}

// Degraded reports whether Redis is not used.
func (l *Limiter) Degraded() bool { return l.degraded.Load() }

// Run probes a Redis that failed and purges full buckets, until ctx ends. It always returns nil.
func (l *Limiter) Run(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var p purger
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if l.degraded.Load() {
			l.probe(ctx)
		}
		// Also while degraded: a full Redis refuses probes until buckets are deleted. Requests notice a Redis that failed.
		_ = p.purge(ctx, l.redis, l.cfg.CallTimeout)
	}
}

// Close waits for the requests under way. Further ones get an error while Redis is used.
func (l *Limiter) Close() {
	l.batches.Close()
	for i := range l.slots {
		l.slots[i].closeConn()
	}
}

// run answers a batch: from Redis, or from local buckets if that fails.
func (l *Limiter) run(at int, calls []*call) {
	if !l.degraded.Load() {
		// The batch belongs to no single request, so its context is not one request's.
		ctx, cancel := context.WithTimeout(context.Background(), l.cfg.CallTimeout)
		defer cancel()
		start := time.Now()
		s := &l.slots[at]
		err := s.take(ctx, l.redis, calls)
		if err == nil {
			l.metrics.called(len(s.items), time.Since(start))
			return
		}
		l.setDegraded(s.failed, err)
	}
	now := l.cfg.Now()
	for _, c := range calls {
		if !c.Answered() {
			c.Answer(l.local.take(c.Request.id, c.Request.rate, now), nil)
		}
	}
}

// probe takes a token of a bucket of its own in the hash whose call failed. It must write: a full Redis still answers
// reads.
func (l *Limiter) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	var s slot
	defer s.closeConn()
	id := ID([]byte("\x00probe\x00\x00\x00\x00\x00\x00"))
	id[0] = byte(l.failed.Load())
	c := &call{Request: request{id: id, rate: Rate{period: 1, requests: 1, burst: 1}}}
	if s.take(ctx, l.redis, []*call{c}) == nil && l.degraded.Swap(false) {
		l.cfg.Logger.Info("Redis is back; rate limits are shared by all pods")
	}
}

// setDegraded stops the use of Redis until a probe succeeds.
func (l *Limiter) setDegraded(hash int, err error) {
	l.failed.Store(int32(hash))
	if !l.degraded.Swap(true) {
		l.cfg.Logger.Warn("Redis failed; each pod grants its share of the rate limits until it is back", "error", err)
	}
}
