package gate

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"examprep.dev/server/keys"
)

// Config holds a gate's settings. The zero value of each field means its default.
type Config struct {
	// Prefix begins every Redis name: the installation's.
	Prefix string
	// Anonymous is the allowance of a client address whose requests carry no valid key (120 per 60 s).
	Anonymous keys.Tier
	// Timeout is how long a request waits for a decision at most, beside its own context (1 s).
	Timeout time.Duration
	// CallTimeout bounds one call to Redis (250 ms): how long an outage goes unnoticed.
	CallTimeout time.Duration
	// InFlight is how many script calls may be under way at once (2). More of them make smaller batches.
	InFlight int
	// BatchSize is how many keys one script call carries at most (128).
	BatchSize int
	// Queue is how many requests may wait for a decision at once (8192); beyond it they are refused as Unavailable.
	Queue int
	// Trust is how long a pod believes Redis after it last compared notes with PostgreSQL, by the pod's monotonic
	// clock (2 s). It bounds how long an announcement waits when Redis cannot be reached. All pods need the same value.
	Trust time.Duration
	// Used is called with the key of each request that is decided by a valid key: admitted, or else limited. It must not
	// block. nil for none.
	Used func(key uuid.UUID, admitted bool)
	// Registerer takes the gate's metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is told of transitions, never of keys; nil discards.
	Logger *slog.Logger
	// Now is the clock; nil for time.Now. Only differences of its monotonic readings matter.
	Now func() time.Time
}

// Defaults of Config.
const (
	defaultTimeout     = time.Second
	defaultCallTimeout = 250 * time.Millisecond
	defaultInFlight    = 2
	defaultBatchSize   = 128
	defaultQueue       = 8192
	defaultTrust       = 2 * time.Second
)

func (c Config) withDefaults() Config {
	setDefault(&c.Timeout, defaultTimeout)
	setDefault(&c.CallTimeout, defaultCallTimeout)
	setDefault(&c.InFlight, defaultInFlight)
	setDefault(&c.BatchSize, defaultBatchSize)
	setDefault(&c.Queue, defaultQueue)
	setDefault(&c.Trust, defaultTrust)
	if c.Anonymous.Requests == 0 {
		c.Anonymous = keys.Default()
	}
	if c.Used == nil {
		c.Used = func(uuid.UUID, bool) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ClientOptions sets what the gate's Redis client needs, for redisurl.Open. A command is never retried by the client:
// a script that ran but whose answer was lost would charge twice. Timeouts are short, because a request waits; and the
// dialer does not retry, because the gate itself knows better what to do meanwhile. The client should be the gate's
// own: other traffic would suffer these timeouts.
func ClientOptions(o *redis.UniversalOptions) {
	o.MaxRetries = -1
	o.DialTimeout = defaultCallTimeout
	o.DialerRetries = 1
	o.ReadTimeout = defaultCallTimeout
	o.WriteTimeout = defaultCallTimeout
	o.PoolTimeout = defaultCallTimeout
	o.ContextTimeoutEnabled = true
	o.PoolSize = 2*defaultInFlight + 6 // calls, and the rarer work of loads, announcements and the heartbeat
	o.ConnMaxIdleTime = 5 * time.Minute
	o.Protocol = 2 // under 3 each answer is first searched for messages that the gate has not asked for
	// Left on, go-redis 9.23 writes its finding on the first connection into options that other connections read: a
	// race, for a feature of one vendor's servers.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
