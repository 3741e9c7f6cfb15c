package delivery

import (
	"context"
	"log/slog"
	"time"
)

const (
	// statementTimeout and sweepTimeout are the defaults of Config.StatementTimeout and Config.SweepTimeout.
	statementTimeout = 5 * time.Second
	sweepTimeout     = 30 * time.Second
	// firstWait and longestWait limit the wait after a store failed.
	firstWait   = 500 * time.Millisecond
	longestWait = 5 * time.Second
)

// SessionSettings are for the connections of a worker's pool. The planner's statistics about pending rows are always
// outdated, and a plan that reads all of them is slowest when most rows are waiting. The worker's statements
// (queries/webhook_worker.sql, and the sweep of attempts) name rows by id or in the order of an index. So each has one good
// plan that does not depend on statistics: reading by index, in the index's order.
func SessionSettings() map[string]string {
	return map[string]string{
		"enable_seqscan":  "off",
		"enable_sort":     "off",
		"plan_cache_mode": "force_generic_plan",
		"jit":             "off", // a plan that cannot avoid what is off looks expensive enough to be compiled
	}
}

// backoff makes one loop wait after a failure of its store: 0.5 s at first, doubling to 5 s.
type backoff struct {
	logger *slog.Logger
	doing  string
	wait   time.Duration
}

// failed reports whether err is not nil. If so, it logs err and waits.
func (b *backoff) failed(ctx context.Context, err error) bool {
	if err == nil {
		b.wait = 0
		return false
	}
	if ctx.Err() == nil {
		b.wait = min(max(2*b.wait, firstWait), longestWait)
		b.logger.WarnContext(ctx, "store unavailable, retrying", "doing", b.doing, "error", err)
		pause(ctx, b.wait)
	}
	return true
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// outlive returns a context that ends d after ctx has ended.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(longer, d)
		cancel()
	})
	return longer, func() { stop(); cancel() }
}
