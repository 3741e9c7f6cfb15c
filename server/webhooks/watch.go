package webhooks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/postgres/webhooksdb"
)

// watchInterval is how often the backlog is measured and endpoints that fail for days are looked for.
const watchInterval = 15 * time.Second

// laneMemory is how long an idle endpoint's window is remembered.
const laneMemory = 15 * time.Minute

// backlogBound is how many pending deliveries the backlog is counted up to: beyond, the gauges say "at least".
const backlogBound = 100_000

// watch measures the backlog, warns of endpoints that are about to be disabled, and tidies up.
func (w *Worker) watch(ctx context.Context) {
	warned := make(map[uuid.UUID]time.Time)
	for {
		w.trouble(ctx, "watching the backlog", w.watchOnce(ctx, warned))
		if !pause(ctx, watchInterval) {
			return
		}
	}
}

func (w *Worker) watchOnce(ctx context.Context, warned map[uuid.UUID]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, watchInterval)
	defer cancel()
	backlog, err := w.queries.Backlog(ctx, backlogBound)
	if err != nil {
		return fmt.Errorf("measure backlog: %w", err)
	}
	w.metrics.backlog.WithLabelValues("due").Set(float64(backlog.Due))
	w.metrics.backlog.WithLabelValues("waiting").Set(float64(backlog.Waiting))
	w.metrics.oldestDue.Set(backlog.OldestDueSeconds)
	w.metrics.outboxLag.Set(backlog.OutboxLagSeconds)
	w.lanes.forget(w.cfg.Now().Add(-laneMemory))
	if err := w.warn(ctx, warned); err != nil {
		return err
	}
	if err := w.queries.DropAllExpiredSecrets(ctx); err != nil {
		return fmt.Errorf("drop expired secrets: %w", err)
	}
	return w.keyring.Reencrypt(ctx, w.queries)
}

// warn tells of endpoints that have failed for half of the time after which they are disabled, once for each run of
// failures.
func (w *Worker) warn(ctx context.Context, warned map[uuid.UUID]time.Time) error {
	failing, err := w.queries.FailingLong(ctx, (w.cfg.DisableAfter / 2).Seconds())
	if err != nil {
		return fmt.Errorf("find failing endpoints: %w", err)
	}
	w.metrics.failing.Set(float64(len(failing)))
	if len(warned) > maxNotes {
		clear(warned)
	}
	for _, endpoint := range failing {
		if !warned[endpoint.ID].Equal(endpoint.FailingSince) {
			warned[endpoint.ID] = endpoint.FailingSince
			w.cfg.Logger.Warn("webhook endpoint will be disabled unless a delivery succeeds", "endpoint", endpoint.ID,
				"failing_since", endpoint.FailingSince, "disabled_from", endpoint.FailingSince.Add(w.cfg.DisableAfter))
		}
	}
	return nil
}

const (
	// secretsAge is how long decrypted secrets are kept: a secret whose overlap has ended signs no longer than that.
	secretsAge = time.Minute
	// maxSecrets bounds the cache.
	maxSecrets = 10_000
)

// secretCache keeps the decrypted secrets of endpoints. An endpoint's change (updated_at) makes it read anew.
type secretCache struct {
	queries *webhooksdb.Queries
	keyring *Keyring
	now     func() time.Time

	mu   sync.Mutex
	byID map[uuid.UUID]cachedSecrets
	// told hears what came of each question to the store.
	told func(context.Context, error)
	// reads lets all tries to an endpoint wait for the same read.
	reads singleflight.Group
}

type cachedSecrets struct {
	of      time.Time
	read    time.Time
	secrets []string
}

// unreachedError says that the store did not answer: nothing is known of the secret.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string { return "read signing secrets: " + e.err.Error() }
func (e *unreachedError) Unwrap() error { return e.err }

func newSecretCache(
	queries *webhooksdb.Queries, keyring *Keyring, now func() time.Time, told func(context.Context, error),
) *secretCache {
	return &secretCache{queries: queries, keyring: keyring, now: now, told: told, byID: make(map[uuid.UUID]cachedSecrets)}
}

// get returns the secrets that sign for an endpoint now, the newest first. It takes at most storeTimeout.
func (c *secretCache) get(ctx context.Context, endpoint uuid.UUID, updatedAt time.Time) ([]string, error) {
	now := c.now()
	c.mu.Lock()
	cached, known := c.byID[endpoint]
	c.mu.Unlock()
	if known && cached.of.Equal(updatedAt) && now.Sub(cached.read) < secretsAge {
		return cached.secrets, nil
	}
	key := endpoint.String() + " " + updatedAt.UTC().Format(time.RFC3339Nano)
	secrets, err, _ := c.reads.Do(key, func() (any, error) {
		read, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		secrets, err := c.read(read, endpoint)
		if err == nil {
			c.keep(endpoint, cachedSecrets{of: updatedAt, read: now, secrets: secrets})
		}
		return secrets, err
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // read's own
	}
	list, _ := secrets.([]string)
	return list, nil
}

// read opens an endpoint's secrets. Without the newest nothing is signed; an earlier one that does not open is left out,
// so that a rotation is the way out of a lost encryption key.
func (c *secretCache) read(ctx context.Context, endpoint uuid.UUID) ([]string, error) {
	rows, err := c.queries.SecretsOfEndpoint(ctx, endpoint)
	c.told(ctx, err)
	if err != nil {
		return nil, &unreachedError{err}
	}
	if len(rows) == 0 {
		return nil, &NotFoundError{ID: endpoint.String()}
	}
	var secrets []string
	for i, row := range rows {
		secret, err := c.keyring.Decrypt(endpoint, row.KeyID, row.Ciphertext)
		switch {
		case err == nil:
			secrets = append(secrets, secret)
		case i == 0:
			return nil, err
		}
	}
	return secrets, nil
}

func (c *secretCache) keep(endpoint uuid.UUID, fresh cachedSecrets) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= maxSecrets {
		clear(c.byID)
	}
	c.byID[endpoint] = fresh
}

// Values of labels: the result of a try that was no failure, and why an endpoint was disabled.
const (
	resultDelivered = "delivered"
	disabledGone    = "gone"
	disabledFailing = "failing"
)

// workerMetrics are what dashboards and autoscaling read.
type workerMetrics struct {
	tries     *prometheus.CounterVec
	seconds   prometheus.Histogram
	arrival   prometheus.Histogram
	inFlight  prometheus.Gauge
	parked    prometheus.Counter
	fenced    prometheus.Counter
	lost      prometheus.Counter
	unsigned  prometheus.Counter
	backlog   *prometheus.GaugeVec
	failing   prometheus.Gauge
	oldestDue prometheus.Gauge
	outboxLag prometheus.Gauge
	disabled  *prometheus.CounterVec
}

func newWorkerMetrics(registerer prometheus.Registerer) *workerMetrics {
	m := &workerMetrics{
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_webhook_tries_total", Help: "Tries by result: delivered, or the class of failure.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_webhook_try_seconds", Help: "Time of one try.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 11),
		}),
		arrival: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_webhook_commit_to_receipt_seconds", Help: "From the event's commit to the receiver's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.002, 3, 14),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "examprep_webhook_in_flight", Help: "Tries under way."}),
		parked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_parked_total", Help: "Deliveries put off because their endpoint's window was full.",
		}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_fenced_total", Help: "Outcomes refused because the lease had passed on.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_lost_tries_total",
			Help: "Tries whose worker never told of them; their deliveries were tried again, and that was not held against them.",
		}),
		unsigned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_unreadable_secrets_total",
			Help: "Tries that were given back unbegun, since their endpoint's signing secret does not open with the encryption keys " +
				"that the worker has; each comes up again every 30 seconds, and the log names the endpoint.",
		}),
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "examprep_webhook_backlog",
			Help: "Pending deliveries, due now or waiting for their retry; counted up to 100000.",
		}, []string{"state"}),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_endpoints_failing",
			Help: "Endpoints that have failed for more than half of the time after which they are disabled.",
		}),
		oldestDue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_oldest_due_seconds",
			Help: "How long the delivery that is overdue longest has been due, of all workers' deliveries, measured every 15 " +
				"seconds. Scale by its maximum over the workers.",
		}),
	}
	m.outboxLag = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "examprep_webhook_outbox_lag_seconds",
		Help: "How long the delivery that was to be handed to a worker first has been waiting for that, of all workers' deliveries, " +
			"measured every 15 seconds.",
	})
	m.disabled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "examprep_webhook_endpoints_disabled_total",
		Help: "Endpoints that this worker disabled: gone, because the receiver said so; failing, for too long.",
	}, []string{"reason"})
	for _, reason := range []string{disabledGone, disabledFailing} {
		m.disabled.WithLabelValues(reason) // so that a rate over it is never empty
	}
	m.tries.WithLabelValues(resultDelivered)
	if registerer != nil {
		registerer.MustRegister(m.tries, m.seconds, m.arrival, m.inFlight, m.parked, m.fenced, m.lost, m.unsigned,
			m.backlog, m.oldestDue, m.failing, m.outboxLag, m.disabled)
	}
	return m
}

func (m *workerMetrics) tried(came outcome, took, sinceCommit time.Duration) {
	label := came.failure
	if came.delivered() {
		label = resultDelivered
		m.arrival.Observe(sinceCommit.Seconds())
	}
	m.tries.WithLabelValues(label).Inc()
	m.seconds.Observe(took.Seconds())
}
