package gate

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/keys"
)

const (
	// loadTries bounds how often one request loads its key: an announcement may end a load, but hardly twice.
	loadTries = 4
	// postgresInFlight and postgresBatch bound the reads of keys from PostgreSQL.
	postgresInFlight = 2
	postgresBatch    = 256
)

// Gate decides about requests. All its methods may be called at once from any number of goroutines.
type Gate struct {
	cfg     Config
	rdb     redis.UniversalClient
	lines   *lines // nil on a Cluster
	cluster bool
	loader  Loader
	pod     string   // this pod's name among those alive
	records []string // the names of the hashes of records: one, or on a Cluster one for each tag

	trust     atomic.Pointer[trust]
	breaker   breaker
	redis     *batcher
	postgres  *batcher
	loads     singleflight.Group
	denials   *denials
	shares    *shares
	guesses   *guesses
	sweeper   sweeper
	scratch   sync.Pool
	anonymous anonymous
	metrics   *metrics
}

// recordsOf returns the name of the hash that has the entry of a key.
func (g *Gate) recordsOf(s *subject) string {
	if !g.cluster {
		return g.records[0]
	}
	return g.records[s.tag()]
}

// anonymous is the tier of addresses, ready for the script.
type anonymous struct {
	rate rate
	args [3]any
}

// New returns a gate on rdb (a single node, Sentinel or Cluster client; see [ClientOptions]) and loader. It talks to
// neither before the first Check, Announce or Run.
func New(cfg Config, rdb redis.UniversalClient, loader Loader) *Gate {
	cfg = cfg.withDefaults()
	g := &Gate{
		cfg: cfg, rdb: rdb, loader: loader, pod: uuid.NewString(),
		denials: newDenials(), shares: newShares(), guesses: newGuesses(), metrics: newMetrics(cfg.Registerer),
	}
	_, g.cluster = rdb.(*redis.ClusterClient)
	g.lines = newLines(rdb, cfg.InFlight, cfg.Now)
	g.records = recordsNames(cfg.Prefix, g.cluster)
	r := rateOf(cfg.Anonymous)
	g.anonymous = anonymous{rate: r, args: [3]any{r.period, r.requests, r.burst}}
	g.breaker.state = g.metrics.breaker.Set
	g.redis = newBatcher(cfg.InFlight, cfg.BatchSize, cfg.Queue, cfg.Timeout, cfg.Now, g.runRedis)
	g.postgres = newBatcher(postgresInFlight, postgresBatch, cfg.Queue, cfg.Timeout, cfg.Now, g.runPostgres)
	g.metrics.watch(cfg.Registerer, g.redis, g.postgres)
	g.scratch.New = func() any { return &scratch{} }
	return g
}

// Check decides about one request: authorization is the value of its Authorization header (it is not kept), client the
// address it comes from (the zero Addr, if unknown, is an address like any other). It returns when ctx ends, at the
// latest after a few times [Config.Timeout].
func (g *Gate) Check(ctx context.Context, authorization []byte, client netip.Addr) Decision {
	var d Decision
	if hash, ok := keys.Parse(bearer(authorization)); ok {
		g.checkKey(ctx, hash, client, &d)
	} else {
		g.checkAddress(ctx, client, &d)
	}
	g.metrics.decided(d.Outcome)
	return d
}

// bearer returns the token of a Bearer credential, nil if it is none.
func bearer(authorization []byte) []byte {
	const scheme = "Bearer "
	if len(authorization) < len(scheme) || !bytes.EqualFold(authorization[:len(scheme)], []byte(scheme)) {
		return nil
	}
	return bytes.TrimLeft(authorization[len(scheme):], " ")
}

// checkKey decides about a request whose key has the right form.
func (g *Gate) checkKey(ctx context.Context, hash keys.Hash, client netip.Addr, d *Decision) {
	s := subject{id: hash}
	switch key, standing := g.denials.find(&s, g.cfg.Now, d); standing {
	case denied:
		g.metrics.denialHits.Inc()
		g.cfg.Used(key, false)
		return
	case unknown:
	case claimed:
		defer g.denials.answered(&s, d)
	}
	var o outcome
	for range loadTries {
		g.askRedis(ctx, &s, &o)
		switch {
		case o.err != nil:
			g.checkDegraded(ctx, &s, client, o.err, d)
			return
		case o.verdict.status == statusActive:
			g.decide(&s, &o, d)
			return
		case o.verdict.status != answerUnverified:
			g.checkAddress(ctx, client, d)
			return
		}
		address := addressSubject(client)
		reserved, ok := g.guesses.begin(&address, g.cfg.Now())
		if !ok {
			g.checkAddress(ctx, client, d)
			d.notLookedUp()
			return
		}
		loaded, err := g.load(ctx, hash)
		if err == nil && loaded == loadAbsent {
			g.guesses.wrong(&address, reserved, g.cfg.Now())
			g.checkAddress(ctx, client, d)
			return
		}
		g.guesses.right(reserved, g.cfg.Now())
		if err != nil {
			g.checkDegraded(ctx, &s, client, err, d)
			return
		}
	}
	unavailable(d)
}

// checkAddress decides about a request without a valid key.
func (g *Gate) checkAddress(ctx context.Context, client netip.Addr, d *Decision) {
	s := addressSubject(client)
	switch _, standing := g.denials.find(&s, g.cfg.Now, d); standing {
	case denied:
		g.metrics.denialHits.Inc()
		return
	case unknown:
	case claimed:
		defer g.denials.answered(&s, d)
	}
	var o outcome
	g.askRedis(ctx, &s, &o)
	if o.err != nil {
		if ctx.Err() != nil || errors.Is(o.err, errOverloaded) {
			unavailable(d)
			return
		}
		g.shares.take(&s, g.anonymous.rate, g.cfg.Now(), &o)
	}
	o.verdict.rate = g.anonymous.rate
	g.decide(&s, &o, d)
}

// decide turns a verdict on a bucket into a decision, remembers a denial, and tells of the key's use.
func (g *Gate) decide(s *subject, o *outcome, d *Decision) {
	r := o.verdict.rate
	requests := int(r.requests) * int(r.scale)
	d.OfKey = !s.address
	d.Limit = requests
	d.Policy = Policy{Requests: requests, Window: time.Duration(r.period*float64(r.scale)) * time.Microsecond}
	d.Remaining = int(max(o.verdict.level, 0) / r.period)
	d.Reset = wholeSeconds(r.until(r.capacity() - o.verdict.level))
	switch {
	case o.allowed && s.address:
		d.Outcome = Unauthorized
	case o.allowed:
		d.Outcome, d.Identity = Allowed, o.verdict.identity
	default:
		d.Outcome, d.Remaining = Limited, 0
		d.RetryAfter = max(wholeSeconds(r.until(r.period-o.verdict.level)), time.Second)
	}
	if o.verdict.level < r.period {
		g.denials.remember(s, g.cfg.Now(), r, o.verdict.level, o.verdict.identity.KeyID, *d)
	}
	if !s.address {
		g.cfg.Used(o.verdict.identity.KeyID, o.allowed)
	}
}

// askRedis asks Redis, in a batch with others, and makes a span of the wait for its answer in a trace that is recorded. It
// names no key and no address.
func (g *Gate) askRedis(ctx context.Context, s *subject, o *outcome) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		g.redis.do(ctx, s, o)
		return
	}
	ctx, span := parent.TracerProvider().Tracer("examprep.dev/server/gate").Start(ctx, "EVALSHA",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "EVALSHA")))
	defer span.End()
	g.redis.do(ctx, s, o)
	if o.err != nil {
		span.SetStatus(codes.Error, "")
	}
}

// notLookedUp makes a refusal a limit: nobody looked whether the key is good, so that it is not is not for us to say.
func (d *Decision) notLookedUp() {
	if d.Outcome == Unauthorized {
		d.Outcome, d.Remaining, d.RetryAfter = Limited, 0, time.Second
	}
}

// unavailable fills d when no store could answer.
func unavailable(d *Decision) {
	*d = Decision{Outcome: Unavailable, RetryAfter: time.Second}
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
