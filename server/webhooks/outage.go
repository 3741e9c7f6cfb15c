package webhooks

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// outages turn failures of the stores into two log lines each: what cannot be done and why when it fails first, and for
// how long it could not when it succeeds again. A store that is away for an hour fails thousands of times in between.
// Each operation counts for itself: Redis may answer a read and refuse a write.
type outages struct {
	logger *slog.Logger
	now    func() time.Time

	// underWay is how many there are: while there is none, a success costs one look.
	underWay atomic.Int32
	mu       sync.Mutex
	byWhat   map[string]outage
}

type outage struct {
	since    time.Time
	failures int
}

func newOutages(logger *slog.Logger, now func() time.Time) *outages {
	return &outages{logger: logger, now: now, byWhat: make(map[string]outage)}
}

// failed notes that an operation did not work.
func (o *outages) failed(ctx context.Context, doing string, err error) {
	o.mu.Lock()
	seen, known := o.byWhat[doing]
	if !known {
		seen.since = o.now()
		o.underWay.Add(1)
	}
	seen.failures++
	o.byWhat[doing] = seen
	o.mu.Unlock()
	if !known {
		o.logger.WarnContext(ctx, "a store did not answer; trying until it does", "doing", doing, "error", err)
	}
}

// worked notes that an operation worked.
func (o *outages) worked(ctx context.Context, doing string) {
	if o.underWay.Load() == 0 {
		return
	}
	o.mu.Lock()
	over, known := o.byWhat[doing]
	if known {
		delete(o.byWhat, doing)
		o.underWay.Add(-1)
	}
	o.mu.Unlock()
	if known {
		o.logger.InfoContext(ctx, "a store answers again", "doing", doing, "away", o.now().Sub(over.since), "failures", over.failures)
	}
}
