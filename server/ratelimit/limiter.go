package ratelimit

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/time/rate"

	"examprep.dev/server/batch"
)

// Config holds the settings of a [Limiter]. Pods is required; a zero value of another field means its default.
type Config struct {
	// Prefix begins every name in Redis: the installation's.
	Prefix string
	// Pods returns the number of pods that share the buckets while Redis is not used; less than 1 means 1.
	Pods func() int
	// CallTimeout bounds one call to Redis (250 ms), and so the time that an outage goes unnoticed.
	CallTimeout time.Duration
	// InFlight is the maximum number of script calls at once (2). More of them make smaller batches.
	InFlight int
	// Queue is the maximum number of requests that wait, at least 8,192. A server whose connections all have room in it, one request
	// each, needs no share for each client: no client can fill it.
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
	// batchSize is the maximum number of requests in a script call; take.lua takes 256 at most.
	batchSize = 128
	// queueSize is the least Config.Queue.
	queueSize = 8192
	// beat is the time between two probes of a Redis that failed, and between two steps of the purge.
	beat = 250 * time.Millisecond
)

// ClientOptions sets what the limiter's client needs, for redisurl.Open. The client never repeats a command: a script that ran
// and whose reply was lost would take its tokens twice. Each limiter needs a client of its own: it keeps connections.
func ClientOptions(o *redis.UniversalOptions) {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.PoolTimeout = defaultCallTimeout, defaultCallTimeout
	o.ReadTimeout, o.WriteTimeout = defaultCallTimeout, defaultCallTimeout
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
	peek bool // takes nothing
}

type call = batch.Call[request, Result]

// Limiter takes tokens from buckets. [New] makes one; it must be closed.
type Limiter struct {
	cfg      Config
	redis    *store
	slots    []*slot
	local    *otter.Cache[ID, *rate.Limiter]
	batches  *batch.Batcher[request, Result]
	degraded atomic.Bool

	batchSize, scriptTime prometheus.Histogram
}

// New returns a limiter on a client made with [ClientOptions], which the caller closes later. Redis need not be reachable.
func New(cfg Config, rdb redis.UniversalClient) *Limiter {
	cfg.CallTimeout, cfg.InFlight = cmp.Or(cfg.CallTimeout, defaultCallTimeout), cmp.Or(cfg.InFlight, defaultInFlight)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Limiter{cfg: cfg, redis: newStore(cfg.Prefix, rdb, cfg.Now)}
	for range cfg.InFlight {
		l.slots = append(l.slots, newSlot(l.redis))
	}
	l.local = otter.Must(&otter.Options[ID, *rate.Limiter]{MaximumSize: maxLocal})
	l.batches = batch.New(batch.Config[request, Result]{Size: batchSize, InFlight: cfg.InFlight, Queue: max(cfg.Queue, queueSize), Run: l.run})
	l.registerMetrics()
	return l
}

// Take takes a token from a bucket, or says when the next one comes. The error is a [*batch.FullError] when too many
// requests wait, a [*batch.AbandonedError] when ctx ends first, or a [*batch.ClosedError].
func (l *Limiter) Take(ctx context.Context, id ID, r Rate) (Result, error) {
	return l.answer(ctx, request{id: id, rate: r})
}

// Peek reads a bucket and takes nothing from it. Its result is never Allowed. The errors are those of Take.
func (l *Limiter) Peek(ctx context.Context, id ID, r Rate) (Result, error) {
	return l.answer(ctx, request{id: id, rate: r, peek: true})
}

func (l *Limiter) answer(ctx context.Context, asked request) (Result, error) {
	switch {
	case asked.rate.requests == 0:
		return Result{}, nil
	case l.degraded.Load():
		return l.answerLocally(asked), nil
	default:
		return l.batches.Do(ctx, asked)
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
	for _, s := range l.slots {
		s.closeConn()
	}
}

// run answers a batch: from Redis, or from local buckets if that fails.
func (l *Limiter) run(at int, calls []*call) {
	if !l.degraded.Load() {
		// The batch belongs to no single request, so its context is not one request's.
		ctx, cancel := context.WithTimeout(context.Background(), l.cfg.CallTimeout)
		defer cancel()
		start := time.Now()
		buckets, err := l.slots[at].take(ctx, calls)
		if err == nil {
			l.batchSize.Observe(float64(buckets))
			l.scriptTime.Observe(time.Since(start).Seconds())
			return
		}
		if !l.degraded.Swap(true) {
			l.cfg.Logger.Warn("Redis failed; each pod grants its share of the rate limits until it is back", "error", err)
		}
	}
	for _, c := range calls {
		if !c.Answered() {
			c.Answer(l.answerLocally(c.Request), nil)
		}
	}
}

// probe uses Redis again if it can take a token in each hash, of a bucket that no request has. It must write: a full Redis
// still answers reads.
func (l *Limiter) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	s := newSlot(l.redis)
	defer s.closeConn()
	var calls []*call
	for hash := range s.groups {
		id := ID{byte(hash), 'p', 'r', 'o', 'b', 'e'}
		calls = append(calls, &call{Request: request{id: id, rate: Rate{period: 1, requests: 1, burst: 1}}})
	}
	if _, err := s.take(ctx, calls); err == nil && l.degraded.Swap(false) {
		l.cfg.Logger.Info("Redis is back; rate limits are shared by all pods")
	}
}
