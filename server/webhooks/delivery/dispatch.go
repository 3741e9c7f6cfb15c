package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/send"
)

const (
	// leaseBatch is how many deliveries one statement leases at most. dispatchLoops of these run at a time, so that receivers do not
	// wait for the disk.
	leaseBatch    = 128
	dispatchLoops = 2
	// A lease of fewer than smallLease places runs alone. Another one waits for it for leaseWait at most: it can wait for PostgreSQL.
	smallLease = leaseBatch / 2
	leaseWait  = 20 * time.Millisecond
	// unreadablePause is the worker's dispatcher.unreadablePause.
	unreadablePause = 30 * time.Second
	// failureInternal is the failure of an attempt that panicked.
	failureInternal = "internal"
)

// dispatcher leases deliveries for windows that have room and starts an attempt for each. An attempt starts only after its
// lease has committed.
type dispatcher struct {
	queries  *webhooksdb.Queries
	lease    uuid.UUID
	duration time.Duration
	windows  *windows
	skipped  *skipList
	keyring  *webhooks.Keyring
	results  chan<- completion
	metrics  *metrics
	tracer   trace.Tracer
	logger   *slog.Logger
	now      func() time.Time
	timeout  time.Duration // of a statement
	// send makes one attempt.
	send func(context.Context, send.Request) send.Result
	// unreadablePause is the wait before a delivery whose signing secret cannot be decrypted is leased again.
	unreadablePause time.Duration
	// attempts are those in flight.
	attempts sync.WaitGroup
	// leasing has an element while a loop takes places, and while its lease of few of them runs.
	leasing  chan struct{}
	skipping sync.Mutex
	// leftOut are endpoints for which nothing can be leased, skips how many of their deliveries were left out one after the other.
	leftOut *skipList
	skips   *counts
}

// run dispatches until ctx ends. Deliveries that are leased then are still attempted, until final ends.
func (d *dispatcher) run(ctx, final context.Context) {
	retry := backoff{logger: d.logger, doing: "leasing deliveries"}
	for ctx.Err() == nil {
		if found, err := d.leaseNext(ctx, final); found {
			retry.failed(ctx, err)
			continue
		}
		select {
		case <-ctx.Done():
		case <-d.windows.ready:
		}
	}
}

// leaseNext leases for windows that have room, and reports whether there are any. It waits for a small lease of the other loop, so all
// places that become free meanwhile are in one lease. It leases nothing after the end of ctx. Attempts have the context final.
func (d *dispatcher) leaseNext(ctx, final context.Context) (found bool, err error) {
	wait := time.NewTimer(leaseWait)
	defer wait.Stop()
	done := func() {}
	select {
	case d.leasing <- struct{}{}:
		done = sync.OnceFunc(func() { <-d.leasing })
	case <-wait.C:
	case <-ctx.Done():
	}
	defer done()
	if ctx.Err() != nil {
		return false, nil
	}
	grants := d.leasable(d.windows.next(leaseBatch))
	if len(grants) == 0 {
		return false, nil
	}
	places := 0
	for _, g := range grants {
		places += g.room
	}
	if places >= smallLease {
		done()
	}
	rows, err := d.take(final, grants)
	done()
	return true, d.settle(final, grants, rows, err)
}

// leasable gives back the grants of endpoints that are left out, and returns the others. A later sweep marks those endpoints due again.
func (d *dispatcher) leasable(grants []grant) []grant {
	leftOut := d.leftOut.ids(d.now())
	if len(leftOut) == 0 {
		return grants
	}
	return slices.DeleteFunc(grants, func(g grant) bool {
		if slices.Contains(leftOut, g.endpoint) {
			d.windows.leased(g, 0, false)
			return true
		}
		return false
	})
}

// dispatch leases rows for grants and starts their attempts. If that fails other than by an outage, it divides the grants
// until one row is left that cannot be leased, and leaves that row out from then on.
func (d *dispatcher) dispatch(ctx context.Context, grants []grant) error {
	rows, err := d.take(ctx, grants)
	return d.settle(ctx, grants, rows, err)
}

// settle does what dispatch does after its statement, which returned rows or err.
func (d *dispatcher) settle(ctx context.Context, grants []grant, rows []webhooksdb.LeaseRow, err error) error {
	switch {
	case err == nil:
		d.start(ctx, grants, rows)
		return nil
	case postgres.Unavailable(err) && !postgres.Divides(err):
		for _, g := range grants {
			d.windows.leased(g, 0, true)
		}
		return err
	case len(grants) > 1:
		half := len(grants) / 2
		return errors.Join(d.dispatch(ctx, grants[:half]), d.dispatch(ctx, grants[half:]))
	case grants[0].room > 1:
		one, rest := grants[0], grants[0]
		one.room /= 2
		rest.room -= one.room
		return errors.Join(d.dispatch(ctx, []grant{one}), d.dispatch(ctx, []grant{rest}))
	default:
		return d.skipFirst(ctx, grants[0])
	}
}

func (d *dispatcher) take(ctx context.Context, grants []grant) ([]webhooksdb.LeaseRow, error) {
	arg := webhooksdb.LeaseParams{LeaseID: d.lease, LeaseSeconds: d.duration.Seconds(), Skip: d.skipped.ids(d.now())}
	for _, g := range grants {
		arg.Endpoints = append(arg.Endpoints, g.endpoint)
		arg.Rooms = append(arg.Rooms, int32(g.room))
		arg.Sinces = append(arg.Sinces, g.since)
	}
	statement, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	rows, err := d.queries.Lease(statement, arg)
	if err != nil {
		return nil, fmt.Errorf("lease deliveries: %w", err)
	}
	return rows, nil
}

// skipFirst leaves out the first due row of an endpoint if it still cannot be leased. Only one loop does so
// at a time: a row that the other loop leaves out or leases is another one. After maxSkips rows without a lease between them the
// endpoint itself is what cannot be read, such as its secret: then it is left out.
func (d *dispatcher) skipFirst(ctx context.Context, g grant) error {
	d.skipping.Lock()
	defer d.skipping.Unlock()
	if slices.Contains(d.leftOut.ids(d.now()), g.endpoint) {
		d.windows.leased(g, 0, false)
		return nil
	}
	rows, cause := d.take(ctx, []grant{g})
	if cause == nil {
		d.start(ctx, []grant{g}, rows)
		return nil
	}
	d.windows.leased(g, 0, false) // the next sweep marks the endpoint due: the pause after a delivery that is left out
	statement, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	id, err := d.queries.FirstDue(statement, webhooksdb.FirstDueParams{EndpointID: g.endpoint, Since: g.since, Skip: d.skipped.ids(d.now())})
	if err != nil {
		return fmt.Errorf("find the delivery that cannot be leased: %w", err)
	}
	d.skipped.add(id, d.now())
	d.metrics.dropped.Inc()
	d.logger.ErrorContext(ctx, "delivery cannot be leased", "delivery", id, "endpoint", g.endpoint, "error", cause)
	if d.skips.add(g.endpoint) >= maxSkips {
		d.skips.clear(g.endpoint)
		d.leftOut.add(g.endpoint, d.now())
		d.logger.ErrorContext(ctx, "no delivery of an endpoint can be leased; it is left out for a while", "endpoint", g.endpoint, "error", cause)
	}
	return nil
}

// A leased delivery with the secrets that sign it.
type leased struct {
	webhooksdb.LeaseRow
	secrets []string
}

// start gives back the places that found no row, and starts an attempt for each row.
func (d *dispatcher) start(ctx context.Context, grants []grant, rows []webhooksdb.LeaseRow) {
	used := make(map[uuid.UUID]int, len(grants))
	secrets := make(map[uuid.UUID][]string, len(grants))
	oldest := make(map[uuid.UUID]time.Time, len(grants))
	for _, row := range rows {
		if row.IsLost {
			d.metrics.lost.Inc()
		}
		if used[row.EndpointID]++; used[row.EndpointID] == 1 {
			secrets[row.EndpointID] = d.decrypt(ctx, row)
			d.skips.clear(row.EndpointID)
		}
		if first, ok := oldest[row.EndpointID]; !ok || row.NextAttemptAt.Before(first) {
			oldest[row.EndpointID] = row.NextAttemptAt
		}
	}
	for _, g := range grants {
		if first, ok := oldest[g.endpoint]; ok {
			d.windows.advance(g.endpoint, first)
		}
		d.windows.leased(g, used[g.endpoint], used[g.endpoint] == g.room)
	}
	for _, row := range rows {
		d.attempts.Go(func() { d.attempt(ctx, leased{row, secrets[row.EndpointID]}) })
	}
}

// decrypt returns the secrets of an endpoint, the newest first, or none if the newest cannot be decrypted. An older one that
// cannot be decrypted is left out, so a rotation repairs an endpoint whose encryption key was lost.
func (d *dispatcher) decrypt(ctx context.Context, row webhooksdb.LeaseRow) []string {
	var secrets []string
	for i, keyID := range row.KeyIds {
		secret, err := d.keyring.Decrypt(row.EndpointID, keyID, row.Ciphertexts[i])
		if err == nil {
			secrets = append(secrets, secret)
		} else if i == 0 {
			d.logger.ErrorContext(ctx, "signing secret cannot be read", "endpoint", row.EndpointID, "error", err)
			return nil
		}
	}
	return secrets
}

// attempt makes one attempt and hands its result to the completer. Its place is freed after that, so a completer that
// cannot write stops the dispatch.
func (d *dispatcher) attempt(ctx context.Context, l leased) {
	switch {
	case l.Body == nil: // retention dropped the event
		d.results <- completion{row: l.LeaseRow, state: webhooks.StateCancelled}
	case len(l.secrets) == 0: // not the receiver's fault: this costs it no attempt
		d.metrics.unreadableSecrets.Inc()
		d.results <- completion{row: l.LeaseRow, state: webhooks.StatePending, delay: d.unreadablePause}
	default:
		began := d.now()
		r := d.post(ctx, l, began)
		took := d.now().Sub(began)
		d.metrics.attempted(r, took, began.Add(took).Sub(createdAt(l.LeaseRow)))
		d.logger.DebugContext(ctx, "webhook attempt", "delivery", l.ID, "endpoint", l.EndpointID, "event", l.EventID,
			"attempt", l.Attempt, "status", r.Status, "failure", r.Failure, "took", took)
		l.Body = nil // the result waits longer than the attempt
		d.results <- completion{row: l.LeaseRow, attempted: true, began: began, took: took, Result: r}
		d.windows.finished(l.EndpointID, r.Delivered(), began)
		return
	}
	d.windows.release(l.EndpointID)
}

// post sends a delivery. A panic is a failed attempt.
func (d *dispatcher) post(ctx context.Context, l leased, began time.Time) (r send.Result) {
	d.metrics.inFlight.Inc()
	defer d.metrics.inFlight.Dec()
	ctx, span := startSpan(ctx, d.tracer, l.LeaseRow, began)
	defer func() {
		if cause := recover(); cause != nil {
			d.logger.ErrorContext(ctx, "webhook attempt panicked", "delivery", l.ID, "panic", cause)
			r = send.Result{Failure: failureInternal}
		}
		endSpan(span, r)
	}()
	return d.send(ctx, send.Request{URL: l.Url, Managed: l.Managed, EventID: l.EventID, Body: l.Body, Secrets: l.secrets})
}
