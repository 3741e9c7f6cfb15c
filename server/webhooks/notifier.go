package webhooks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// WakeUpField is the field of a stream entry that has the 16 bytes of an endpoint's id.
	WakeUpField = "e"
	// maxStream is about how many wake-ups the stream holds. The workers' sweep finds the endpoints of those that are lost.
	maxStream = 10_000
	// notifyGap is the least time between two writes to Redis. Commits within it share one.
	notifyGap = 2 * time.Millisecond
	// notifyTimeout limits one write.
	notifyTimeout = 2 * time.Second
	// maxPending is how many endpoints may wait for a write; more are left to the sweep.
	maxPending = 10_000
)

// StreamName is the Redis stream of wake-ups. An entry means that an endpoint has work.
func StreamName(prefix string) string { return prefix + "webhooks:deliveries" }

// Notifier wakes a worker after a commit that wrote deliveries, by adding the endpoints' ids to the stream. It writes in its own
// goroutine, so no request waits for Redis. If Redis fails, a worker's sweep finds the deliveries within a second.
type Notifier struct {
	redis  redis.UniversalClient
	stream string
	logger *slog.Logger
	wake   chan struct{}
	// timeout limits one write.
	timeout time.Duration

	mu      sync.Mutex
	pending map[uuid.UUID]struct{}
}

// NewNotifier returns a notifier. Calls of Notify take effect while Run runs.
func NewNotifier(client redis.UniversalClient, prefix string, logger *slog.Logger) *Notifier {
	return &Notifier{
		redis: client, stream: StreamName(prefix), logger: logger, wake: make(chan struct{}, 1),
		timeout: notifyTimeout, pending: make(map[uuid.UUID]struct{}),
	}
}

// Notify wakes a worker for endpoints that have committed deliveries. It never blocks. A nil Notifier does nothing, for programs that
// leave the wake-up to the sweep.
func (n *Notifier) Notify(endpoints ...uuid.UUID) {
	if n == nil || len(endpoints) == 0 {
		return
	}
	n.mu.Lock()
	for _, endpoint := range endpoints {
		if len(n.pending) < maxPending {
			n.pending[endpoint] = struct{}{}
		}
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run writes wake-ups until ctx ends, then the rest. It always returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	gap := time.NewTicker(notifyGap)
	defer gap.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-n.wake:
			n.send(ctx)
			<-gap.C
		}
	}
	n.send(ctx)
	return nil
}

func (n *Notifier) send(ctx context.Context) {
	n.mu.Lock()
	endpoints := n.pending
	n.pending = make(map[uuid.UUID]struct{})
	n.mu.Unlock()
	if len(endpoints) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeout)
	defer cancel()
	_, err := n.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for endpoint := range endpoints {
			p.XAdd(ctx, &redis.XAddArgs{Stream: n.stream, MaxLen: maxStream, Approx: true, Values: []any{WakeUpField, endpoint[:]}})
		}
		return nil
	})
	if err != nil {
		n.logger.DebugContext(ctx, "webhook wake-ups not written; the sweep finds the deliveries", "endpoints", len(endpoints), "error", err)
	}
}
