package gate

import (
	"context"
	"time"
)

// renewals is how often trust is renewed within its time: one that fails leaves room for another.
const renewals = 4

// Run compares notes with PostgreSQL ahead of time, announces what others left unannounced, deletes what is past from
// Redis, tells the other pods that this one is alive, and probes a Redis that failed, until ctx ends. A gate works without it, for programs that only
// announce; but then each use after a pause pays for the comparison. It always returns nil.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.cfg.Trust / renewals)
	defer ticker.Stop()
	for {
		g.renew(ctx)
		g.sweep(ctx) // before what writes: a full Redis takes deletions only
		g.heartbeat(ctx, "h")
		g.metrics.tick(g.cfg.Now(), g.trust.Load().valid(g.cfg.Now()))
		select {
		case <-ctx.Done():
			g.heartbeat(context.WithoutCancel(ctx), "l")
			return nil
		case <-ticker.C:
		}
	}
}

// heartbeat says that this pod is alive ("h") or leaves ("l"), and learns how many are.
func (g *Gate) heartbeat(ctx context.Context, operation string) {
	t := g.trust.Load()
	if !t.valid(g.cfg.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	n, err := g.rdb.Do(ctx, "evalsha", t.sha, 1, g.cfg.Prefix+"gate:pods", operation, t.term, g.pod).Int()
	switch {
	case err != nil:
		_ = g.failed(ctx, t, err)
	case operation == "h":
		g.shares.setPods(n)
	}
}
