package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/send"
)

const (
	// completeBatch and completeGap shape the statements that write results: up to 512, at most 10 ms after the first.
	completeBatch = 512
	completeGap   = 10 * time.Millisecond
	// maxTimeouts is how often a statement of the same results may time out before they are divided.
	maxTimeouts = 2
)

// A completion is what must be written about a leased delivery.
type completion struct {
	row webhooksdb.LeaseRow
	// attempted: the delivery was sent, and Result decides its state. Otherwise state and delay are given and the attempt does
	// not count.
	attempted bool
	began     time.Time
	took      time.Duration
	send.Result
	state webhooks.State
	delay time.Duration
	// wait and leaseEnd are set for a result whose row was locked (aside.go).
	wait     time.Duration
	leaseEnd time.Time
}

// completer writes results in batches. An outage makes it wait; any other error makes it divide the batch, so a result that
// cannot be written costs one delivery only. A row that another transaction has locked is set aside (aside.go).
type completer struct {
	queries *webhooksdb.Queries
	lease   uuid.UUID
	results <-chan completion
	delays  []time.Duration
	skipped *skipList
	health  *healthRecorder
	metrics *metrics
	logger  *slog.Logger
	now     func() time.Time
	timeout time.Duration // of a statement
	// duration is how long a lease lasts. A result whose row is locked is tried again until its lease ends.
	duration time.Duration
	aside    []setAside
}

// run writes until results is closed and empty. After the end of ctx it waits for no outage and for no locked row.
func (c *completer) run(ctx context.Context) {
	for open := true; open; {
		due := time.NewTimer(c.untilNext())
		select {
		case first, more := <-c.results:
			if open = more; open {
				c.write(ctx, c.gather(first))
			}
		case <-due.C:
		}
		due.Stop()
		c.writeAside(ctx)
	}
	for len(c.aside) > 0 {
		pause(ctx, c.untilNext())
		c.writeAside(ctx)
	}
}

func (c *completer) gather(first completion) []completion {
	batch := []completion{first}
	gap := time.NewTimer(completeGap)
	defer gap.Stop()
	for len(batch) < completeBatch {
		select {
		case next, open := <-c.results:
			if !open {
				return batch
			}
			batch = append(batch, next)
		case <-gap.C:
			return batch
		}
	}
	return batch
}

func (c *completer) write(ctx context.Context, batch []completion) {
	retry := backoff{logger: c.logger, doing: "writing delivery results"}
	for timeouts, again := 0, false; ; again = true {
		written, locked, err := c.complete(ctx, batch)
		if err == nil {
			batch = c.keepLocked(ctx, batch, locked)
			if !again { // else an earlier statement may have committed without a response
				c.metrics.fenced.Add(float64(len(batch) - written))
			}
			c.health.record(batch)
			return
		}
		if timedOut(err) {
			timeouts++
		}
		switch {
		case len(batch) > 1 && ctx.Err() == nil && (timeouts >= maxTimeouts || postgres.Divides(err) || !postgres.Unavailable(err)):
			half := len(batch) / 2
			c.write(ctx, batch[:half])
			c.write(ctx, batch[half:])
			return
		case postgres.Unavailable(err) && timeouts < maxTimeouts && ctx.Err() == nil:
			retry.failed(ctx, err)
		default:
			for _, r := range batch {
				c.skipped.add(r.row.ID, c.now())
			}
			c.drop(ctx, batch, err)
			return
		}
	}
}

// drop gives up results that cannot be written. Their leases expire, and the attempts are logged as worker_lost.
func (c *completer) drop(ctx context.Context, batch []completion, err error) {
	c.metrics.dropped.Add(float64(len(batch)))
	for _, r := range batch {
		c.logger.ErrorContext(ctx, "delivery result not saved", "delivery", r.row.ID, "endpoint", r.row.EndpointID, "error", err)
	}
}

// timedOut reports whether a statement was sent and took too long, by our limit or by PostgreSQL's.
func timedOut(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return errors.Is(err, context.DeadlineExceeded) && !connecting || postgres.Divides(err)
}

// complete returns how many deliveries were written, and those whose rows are locked. Another worker leases the others now. It looks
// for locked rows if a statement met one, or results of the batch were set aside.
func (c *completer) complete(ctx context.Context, batch []completion) (written int, locked map[uuid.UUID]bool, err error) {
	arg := webhooksdb.CompleteParams{LeaseID: c.lease}
	for _, r := range batch {
		arg.SkipLocked = arg.SkipLocked || r.wait > 0
		state, delay := c.nextState(r)
		arg.Ids = append(arg.Ids, r.row.ID)
		arg.Attempts = append(arg.Attempts, r.row.Attempt)
		arg.Attempted = append(arg.Attempted, r.attempted)
		arg.States = append(arg.States, string(state))
		arg.Statuses = append(arg.Statuses, int32(r.Status))
		arg.Failures = append(arg.Failures, r.Failure)
		arg.Delays = append(arg.Delays, delay.Seconds())
		arg.Began = append(arg.Began, r.began)
		arg.Millis = append(arg.Millis, int32(min(max(r.took, 0), time.Hour)/time.Millisecond)) // a clock can be set back
		arg.Responses = append(arg.Responses, r.Response)
	}
	statement, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	rows, err := c.queries.Complete(statement, arg)
	if !arg.SkipLocked && postgres.Contended(err) {
		arg.SkipLocked = true
		rows, err = c.queries.Complete(statement, arg)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("write %d delivery results: %w", len(batch), err)
	}
	locked = make(map[uuid.UUID]bool)
	for _, row := range rows {
		if row.Locked {
			locked[row.ID] = true
		} else {
			written++
		}
	}
	return written, locked, nil
}

// nextState returns a delivery's state after a result, and the wait before its next attempt.
func (c *completer) nextState(r completion) (webhooks.State, time.Duration) {
	switch {
	case !r.attempted:
		return r.state, r.delay
	case r.Delivered():
		return webhooks.StateDelivered, 0
	case r.Status == http.StatusGone:
		return webhooks.StateFailed, 0
	}
	wait, again := nextRetry(c.delays, int(r.row.Attempt-r.row.LostAttempts), r.RetryAfter)
	if !again {
		return webhooks.StateFailed, 0
	}
	return webhooks.StatePending, wait
}
