// Package parts runs the parts of a process, and stops them in the order of their use.
package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Part is something that runs until its context ends: a server, a relay, a cache that listens for changes.
type Part struct {
	// Name is for the log and for errors.
	Name string
	// Run returns when its context ends. An earlier return ends all parts.
	Run func(ctx context.Context) error
}

// GraceError names the parts that had not stopped when the grace was over.
type GraceError struct {
	grace time.Duration
	parts []string
}

func (e *GraceError) Error() string {
	return fmt.Sprintf("still running after the shutdown grace of %s: %v", e.grace, e.parts)
}

// Run runs front and back until ctx ends or one of them fails. Then the front stops first: it takes in work. The back, which the
// front uses, stops when the front has finished its work. All of it must end within grace, else the error is a [*GraceError].
func Run(ctx context.Context, logger *slog.Logger, grace time.Duration, front, back []Part) error {
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
		return errors.Join(&GraceError{grace: grace, parts: late}, failed)
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

func (r *running) start(ctx context.Context, p Part, failed context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive == nil {
		r.alive = make(map[string]struct{})
	}
	r.alive[p.Name] = struct{}{}
	r.wg.Go(func() {
		err := p.Run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.alive, p.Name)
		if err != nil && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%s: %w", p.Name, err)
			r.failures = append(r.failures, err)
			failed(err)
			return
		}
		if ctx.Err() == nil {
			err = fmt.Errorf("%s ended by itself", p.Name)
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
