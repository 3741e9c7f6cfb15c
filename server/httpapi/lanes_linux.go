package httpapi

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// lanes are one lane for each processor.
type lanes struct {
	all  []*lane
	turn atomic.Uint32
	end  context.CancelFunc
	work errgroup.Group
}

// openLanes starts them; stop ends them. Where they cannot be had, fasthttp serves all connections.
func openLanes(s *Server, l *listener) *lanes {
	ctx, end := context.WithCancel(s.life)
	all := &lanes{end: end}
	for range runtime.GOMAXPROCS(0) {
		one, err := newLane(s, l)
		if err != nil {
			s.logger.Warn("small requests are served as all others are", "error", err)
			break
		}
		all.all = append(all.all, one)
		all.work.Go(func() error { one.run(); return nil })
	}
	all.work.Go(func() error { all.expire(ctx, s.cfg, l.slack); return nil })
	return all
}

// expire closes what waits for too long, until ctx ends.
func (a *lanes) expire(ctx context.Context, cfg Config, interval time.Duration) {
	look := time.NewTicker(max(interval, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		for _, one := range a.all {
			one.expire(cfg.ReadTimeout, cfg.IdleTimeout, cfg.WriteTimeout)
		}
	}
}

// take makes a connection one of a lane's, if it can be.
func (a *lanes) take(c *conn) bool {
	if a == nil || len(a.all) == 0 {
		return false
	}
	return a.all[int(a.turn.Add(1))%len(a.all)].take(c)
}

// expireIdle closes connections without a request in hand.
func (a *lanes) expireIdle() {
	for _, one := range a.all {
		one.expire(0, 0, one.server.cfg.WriteTimeout)
	}
}

// cut ends every connection.
func (a *lanes) cut() {
	for _, one := range a.all {
		one.cut()
	}
}

// stop ends all.
func (a *lanes) stop() {
	a.end()
	for _, one := range a.all {
		one.stop()
	}
	_ = a.work.Wait() // nothing of it fails
}
