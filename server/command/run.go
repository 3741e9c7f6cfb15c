package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// part is something that runs until its context ends: a server, a relay, a cache that listens for changes.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// graceError says which parts had not stopped when the grace was over.
type graceError struct {
	grace time.Duration
	parts []string
}

func (e *graceError) Error() string {
	return fmt.Sprintf("still running after the shutdown grace of %s: %v", e.grace, e.parts)
}

// runParts runs front and back until ctx ends or one of them fails. Then the front stops first (it takes in work), and
// the back, which the front leans on, only when the front has finished what was in hand. All of it within grace.
func runParts(ctx context.Context, logger *slog.Logger, grace time.Duration, front, back []part) error {
	frontCtx, stopFront := context.WithCancelCause(ctx)
	defer stopFront(nil)
	backCtx, stopBack := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopBack(nil)

	var fronts, backs running
	for _, p := range back {
		backs.start(backCtx, p, stopFront)
	}
	for _, p := range front {
		fronts.start(frontCtx, p, stopFront)
	}

	<-frontCtx.Done()
	logger.Info("stopping", "cause", context.Cause(frontCtx), "grace", grace.String())
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	late := fronts.wait(deadline)
	stopBack(context.Canceled)
	late = append(late, backs.wait(deadline)...)
	failed := errors.Join(fronts.failed(), backs.failed())
	if len(late) > 0 {
		return errors.Join(&graceError{grace: grace, parts: late}, failed)
	}
	return failed
}

// running keeps track of parts that were started together.
type running struct {
	mu       sync.Mutex
	wg       sync.WaitGroup
	alive    map[string]struct{}
	failures []error
}

func (r *running) start(ctx context.Context, p part, failed context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive == nil {
		r.alive = make(map[string]struct{})
	}
	r.alive[p.name] = struct{}{}
	r.wg.Go(func() {
		err := p.run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.alive, p.name)
		if err != nil && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%s: %w", p.name, err)
			r.failures = append(r.failures, err)
			failed(err)
			return
		}
		if ctx.Err() == nil {
			err = fmt.Errorf("%s ended by itself", p.name)
			r.failures = append(r.failures, err)
			failed(err)
		}
	})
}

// wait returns the names of the parts that still run when the deadline passes; none when all have ended.
func (r *running) wait(deadline context.Context) []string {
	done := make(chan struct{})
	go func() { // ends with the parts; the process exits right after a late one is reported
		r.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-deadline.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	late := make([]string, 0, len(r.alive))
	for name := range r.alive {
		late = append(late, name)
	}
	return late
}

func (r *running) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.failures...)
}
