package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
)

const (
	healthInterval = time.Second
	// reasonGone and reasonFailing are the disabled_reasons that a worker writes.
	reasonGone    = "the receiver returned 410 Gone"
	reasonFailing = "no delivery succeeded for 5 days"
)

// healthRecorder keeps failing_since, last_status, last_failure and last_success_at of endpoints, and disables endpoints that return 410
// or fail for too long. It collects results and writes them once a second, at once after a 410.
type healthRecorder struct {
	queries *webhooksdb.Queries
	metrics *metrics
	logger  *slog.Logger
	timeout time.Duration // of a statement
	wake    chan struct{}
	// refused are endpoints whose rows cannot be written.
	refused *skipList

	mu      sync.Mutex
	results map[uuid.UUID]health
}

// health is what the results since the last write say about an endpoint. A success wins over failures.
type health struct {
	ok     bool
	status int
	// failure is the class of the last failure; empty after a success.
	failure string
	// goneAt is the endpoint's updated_at that the latest 410 saw; zero without one.
	goneAt time.Time
}

func newHealthRecorder(queries *webhooksdb.Queries, m *metrics, logger *slog.Logger, timeout time.Duration) *healthRecorder {
	return &healthRecorder{
		queries: queries, metrics: m, logger: logger, timeout: timeout, wake: make(chan struct{}, 1),
		refused: newSkipList(skipTime),
		results: make(map[uuid.UUID]health),
	}
}

func (h *healthRecorder) record(batch []completion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range batch {
		if !r.attempted {
			continue
		}
		seen := health{ok: r.Delivered(), status: r.Status, failure: r.Failure}
		if r.Status == http.StatusGone {
			seen.goneAt = r.row.UpdatedAt
			select {
			case h.wake <- struct{}{}:
			default:
			}
		}
		h.results[r.row.EndpointID] = h.results[r.row.EndpointID].then(seen)
	}
}

// then returns what two reports say together.
func (h health) then(later health) health {
	if h.ok && !later.ok {
		later.ok, later.status, later.failure = true, h.status, h.failure
	}
	if h.goneAt.After(later.goneAt) {
		later.goneAt = h.goneAt
	}
	return later
}

func (h *healthRecorder) run(ctx context.Context) {
	retry := backoff{logger: h.logger, doing: "recording the health of endpoints"}
	timer := time.NewTicker(healthInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-h.wake:
		case <-timer.C:
		}
		retry.failed(ctx, h.flush(ctx))
	}
}

// flush writes what was collected. A result that could not be written because of an outage, or of a locked row, stays for the next
// time.
func (h *healthRecorder) flush(ctx context.Context) error {
	h.mu.Lock()
	results := h.results
	h.results = make(map[uuid.UUID]health)
	h.mu.Unlock()
	for _, refused := range h.refused.ids(time.Now()) {
		delete(results, refused)
	}
	return h.write(ctx, results, slices.Collect(maps.Keys(results)))
}

// write writes the results of some endpoints. If PostgreSQL refuses them, it divides them until one endpoint is left that cannot be
// written, and leaves that one out from then on.
func (h *healthRecorder) write(ctx context.Context, results map[uuid.UUID]health, endpoints []uuid.UUID) error {
	if len(endpoints) == 0 {
		return nil
	}
	err := h.writeOnce(ctx, results, endpoints)
	switch {
	case err == nil:
		return nil
	case postgres.Unavailable(err) && !postgres.Divides(err):
		for _, endpoint := range endpoints {
			h.putBack(endpoint, results[endpoint])
		}
		return err
	case len(endpoints) > 1:
		half := len(endpoints) / 2
		return errors.Join(h.write(ctx, results, endpoints[:half]), h.write(ctx, results, endpoints[half:]))
	default:
		h.refused.add(endpoints[0], time.Now())
		h.logger.ErrorContext(ctx, "health of an endpoint not saved", "endpoint", endpoints[0], "error", err)
		return nil
	}
}

func (h *healthRecorder) writeOnce(ctx context.Context, results map[uuid.UUID]health, endpoints []uuid.UUID) error {
	arg := webhooksdb.RecordHealthParams{Gone: reasonGone, Failing: reasonFailing, FailingSeconds: webhooks.DisableAfter.Seconds()}
	for _, endpoint := range endpoints {
		seen := results[endpoint]
		arg.Ids = append(arg.Ids, endpoint)
		arg.Oks = append(arg.Oks, seen.ok)
		arg.Statuses = append(arg.Statuses, int32(seen.status))
		arg.Failures = append(arg.Failures, seen.failure)
		arg.Seen = append(arg.Seen, seen.goneAt)
	}
	statement, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.timeout)
	defer cancel()
	rows, err := h.queries.RecordHealth(statement, arg)
	if err != nil {
		return fmt.Errorf("record health: %w", err)
	}
	for _, row := range rows {
		if row.Reason == "" { // locked by another transaction
			h.putBack(row.ID, results[row.ID])
			continue
		}
		label := map[string]string{reasonGone: disabledGone, reasonFailing: disabledFailing}[row.Reason]
		h.metrics.disabled.WithLabelValues(label).Inc()
		h.logger.WarnContext(ctx, "webhook endpoint disabled", "endpoint", row.ID, "reason", row.Reason)
	}
	return nil
}

// putBack merges an earlier result that was not written with those that came meanwhile.
func (h *healthRecorder) putBack(endpoint uuid.UUID, earlier health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if later, known := h.results[endpoint]; known {
		earlier = earlier.then(later)
	}
	h.results[endpoint] = earlier
}
