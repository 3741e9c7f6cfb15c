package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
)

// Config holds the settings of a [Gate]. The zero value of each field means its default.
type Config struct {
	// Anonymous is the allowance of a client address without a valid key, and of a signed-in person (120 per 60 s).
	Anonymous keys.Tier
	// OnUse is called for each request with a valid key that is allowed or limited. It must not block. nil for none.
	OnUse func(key uuid.UUID, allowed bool)
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Now is the clock of denials from memory; nil for time.Now.
	Now func() time.Time
}

// Gate decides about requests. Its methods may be called from any number of goroutines.
type Gate struct {
	cfg     Config
	keys    *directory.Directory
	limiter *ratelimit.Limiter
	denied  *deniedCache
	metrics *metrics
}

// New returns a gate on a directory of keys and a limiter. Both must run.
func New(cfg Config, live *directory.Directory, limiter *ratelimit.Limiter) (*Gate, error) {
	if cfg.Anonymous.Requests == 0 {
		cfg.Anonymous = keys.Default()
	}
	cfg.Anonymous.Burst = cmp.Or(cfg.Anonymous.Burst, cfg.Anonymous.Requests)
	if cfg.OnUse == nil {
		cfg.OnUse = func(uuid.UUID, bool) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	denied, err := newDeniedCache(cfg.Now)
	if err != nil {
		return nil, err
	}
	return &Gate{cfg: cfg, keys: live, limiter: limiter, denied: denied, metrics: newMetrics(cfg.Registerer)}, nil
}

// Check decides about one request. authorization is the value of its Authorization header, which is not kept. client is its
// address; the zero Addr, of an unknown client, is an address like any other. Check returns when ctx ends, if not earlier.
func (g *Gate) Check(ctx context.Context, authorization []byte, client netip.Addr) Decision {
	d := g.check(ctx, authorization, client)
	g.metrics.decided(d.Outcome)
	return d
}

func (g *Gate) check(ctx context.Context, authorization []byte, client netip.Addr) Decision {
	hash, ok := keys.Parse(bearer(authorization))
	if !ok {
		return g.take(ctx, addressBucket(client), g.cfg.Anonymous, Unauthorized)
	}
	key, status := g.keys.Find(ctx, hash)
	switch status {
	case directory.Live:
		return g.takeForKey(ctx, hash, &key)
	case directory.Unknown:
		return g.take(ctx, addressBucket(client), g.cfg.Anonymous, Unauthorized)
	default:
		if key.Tier != nil {
			return unavailable(*key.Tier)
		}
		return g.take(ctx, addressBucket(client), g.cfg.Anonymous, Unavailable)
	}
}

// CheckSession decides about a request of a signed-in developer by the bucket of the person, whatever the session. It does
// not check whether a session is valid.
func (g *Gate) CheckSession(ctx context.Context, person []byte) Decision {
	d := g.take(ctx, personBucket(person), g.cfg.Anonymous, Allowed)
	g.metrics.decided(d.Outcome)
	return d
}

// Peek returns the state of a client address's bucket, from which it takes nothing. The request passes, also if the bucket is
// empty or cannot be read.
func (g *Gate) Peek(ctx context.Context, client netip.Addr) Decision {
	d := ofTier(g.cfg.Anonymous)
	if result, err := g.ask(ctx, addressBucket(client), g.cfg.Anonymous, g.limiter.Peek); err == nil {
		d.Remaining, d.Reset = result.Remaining, ceilSeconds(result.Full)
	}
	d.Outcome = Allowed
	return d
}

func (g *Gate) takeForKey(ctx context.Context, hash keys.Hash, key *directory.Key) Decision {
	d := g.take(ctx, ratelimit.ID(hash[:]), *key.Tier, Allowed)
	d.OfKey = true
	if d.Outcome == Allowed {
		d.Identity = key.Identity
	}
	if d.Outcome != Unavailable {
		g.cfg.OnUse(key.KeyID, d.Outcome == Allowed)
	}
	return d
}

// take takes a token of a bucket; granted is the outcome of a request that gets one.
func (g *Gate) take(ctx context.Context, id ratelimit.ID, tier keys.Tier, granted Outcome) Decision {
	result, err := g.ask(ctx, id, tier, g.limiter.Take)
	if err != nil {
		return unavailable(tier)
	}
	return decide(tier, result, granted)
}

// ask returns the answer of a bucket: from memory if it is known to be empty, else of the limiter's Take or Peek.
func (g *Gate) ask(
	ctx context.Context, id ratelimit.ID, tier keys.Tier, limiter func(context.Context, ratelimit.ID, ratelimit.Rate) (ratelimit.Result, error),
) (ratelimit.Result, error) {
	rate, err := ratelimit.NewRate(tier.Requests, tier.Period, tier.Burst)
	if err != nil { // keys.Tier.Validate accepts no such tier
		return ratelimit.Result{}, err
	}
	if result, ok := g.denied.find(id, rate); ok {
		g.metrics.deniedHits.Inc()
		return result, nil
	}
	result, err := limiter(ctx, id, rate)
	if err == nil {
		g.denied.note(id, rate, result)
	}
	return result, err
}

// bearer returns the token of a Bearer credential, nil if it is none.
func bearer(authorization []byte) []byte {
	const scheme = "Bearer "
	if len(authorization) < len(scheme) || !bytes.EqualFold(authorization[:len(scheme)], []byte(scheme)) {
		return nil
	}
	return bytes.TrimLeft(authorization[len(scheme):], " ")
}

// addressBucket names the bucket of a client.
func addressBucket(client netip.Addr) ratelimit.ID {
	client = client.Unmap()
	address := client.As16()
	if client.Is6() {
		clear(address[8:])
	}
	return bucketOf('a', address[:])
}

func personBucket(person []byte) ratelimit.ID { return bucketOf('p', person) }

// bucketOf names the bucket of an owner that is not a key. Owners of different kinds share none.
func bucketOf(kind byte, owner []byte) ratelimit.ID {
	var buffer [128]byte
	hash := sha256.Sum256(append(append(buffer[:0], kind), owner...))
	return ratelimit.ID(hash[:])
}
