package webhooks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// DefaultRetention is how long events, deliveries and tries are kept.
	DefaultRetention = 30 * 24 * time.Hour
	// MinRetention is the least that may be asked for: what somebody is looking at is not to go under his hands.
	MinRetention = 24 * time.Hour
	// partitionWeek is what a partition holds, counted from the epoch.
	partitionWeek = 7 * 24 * time.Hour
	// weeksAhead is how many weeks beyond the present one have partitions: so long may all workers be away before the
	// default partitions take what comes. server/postgres/migrate.go makes as many.
	weeksAhead = 8
	// keepInterval is how often partitions are looked after, keepAgain how soon after something did not work: mostly the
	// lock of a table that somebody has.
	keepInterval = 10 * time.Minute
	keepAgain    = time.Minute
	// pendingLeast is how long after its event a delivery may be pending, pendingGrace how much longer than anything else is
	// kept: for so long, somebody can see that a partition is kept for it, and find the key of the endpoint's secret.
	pendingLeast = DefaultRetention
	pendingGrace = partitionWeek
	// keepTimeout bounds one step, sweepChunk the rows of each default partition that one step deletes or ends.
	keepTimeout = time.Minute
	sweepChunk  = 1000
)

// partitionKinds are what is kept in partitions of the same weeks. Deliveries go first, then what belongs to them.
func partitionKinds() [3]string { return [...]string{"deliveries", "attempts", "events"} }

// A partition is a part of one of the tables: of the ids (UUIDv7) from lower to before upper. The first of a table has no
// lower, the one that takes what no other does has neither.
type partition struct {
	Kind, Name   string
	Lower, Upper uuid.NullUUID
}

// keeper looks after the partitions: there are some for the weeks to come, and none whose rows are all older than they are
// to be kept. Any number of keepers work side by side; a step is one statement, and done by one of them at a time.
type keeper struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keep    time.Duration
	// now is the database's time, by which ids are made: a worker whose clock is wrong drops nothing.
	now     func(context.Context) (time.Time, error)
	logger  *slog.Logger
	metrics *keeperMetrics
	// crowded are the partitions that it told cannot be made.
	crowded map[string]bool
}

func newKeeper(pool *pgxpool.Pool, keep time.Duration, registerer prometheus.Registerer, logger *slog.Logger) *keeper {
	queries := webhooksdb.New(pool)
	return &keeper{
		pool: pool, queries: queries, keep: keep, now: queries.DatabaseTime, logger: logger, metrics: newKeeperMetrics(registerer),
		crowded: make(map[string]bool),
	}
}

// retain looks after the partitions until ctx ends.
func (w *Worker) retain(ctx context.Context) {
	for {
		interval := keepInterval
		if err := w.keeper.once(ctx); err != nil && ctx.Err() == nil {
			w.keeper.metrics.errors.Inc()
			w.cfg.Logger.WarnContext(ctx, "webhook partitions were not all looked after; trying again", "error", err)
			interval = keepAgain
		} else if err == nil {
			w.keeper.metrics.success.SetToCurrentTime()
		}
		if !pause(ctx, interval) {
			return
		}
	}
}

// once does what is to be done now. That a step fails keeps none of the others from being done.
func (k *keeper) once(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, keepTimeout)
	now, err := k.now(asking)
	cancel()
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	errs := []error{k.add(ctx, now), k.retire(ctx, now), k.sweep(ctx, now.Add(-k.keep))}
	partitions, err := k.partitions(ctx)
	if err == nil {
		k.metrics.partitions.Set(float64(len(partitions)))
		k.metrics.ahead.Set(float64(weeksCovered(partitions, now)))
	}
	return errors.Join(append(errs, err, k.measure(ctx))...)
}

func (k *keeper) partitions(ctx context.Context) ([]partition, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	rows, err := k.pool.Query(ctx, "SELECT kind, name, lower, upper FROM webhook_partitions ORDER BY kind, upper")
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	partitions, err := pgx.CollectRows(rows, pgx.RowToStructByName[partition])
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return partitions, nil
}

// add makes the partitions of this week and the next ones that are missing.
func (k *keeper) add(ctx context.Context, now time.Time) error {
	partitions, err := k.partitions(ctx)
	if err != nil {
		return err
	}
	var errs []error
	week := weekOf(now)
	for range 1 + weeksAhead {
		for _, kind := range partitionKinds() {
			if !covered(partitions, kind, week) {
				errs = append(errs, k.addWeek(ctx, kind, week))
			}
		}
		week = week.Add(partitionWeek)
	}
	return errors.Join(errs...)
}

// weekOf is when the week of a moment begins.
func weekOf(at time.Time) time.Time {
	return time.Unix(at.Unix()-at.Unix()%int64(partitionWeek/time.Second), 0).UTC()
}

// covered reports whether a table has a partition for a week.
func covered(partitions []partition, kind string, week time.Time) bool {
	id := firstID(week)
	for _, p := range partitions {
		after := p.Upper.Valid && bytes.Compare(id[:], p.Upper.UUID[:]) < 0
		if p.Kind == kind && after && (!p.Lower.Valid || bytes.Compare(id[:], p.Lower.UUID[:]) >= 0) {
			return true
		}
	}
	return false
}

// weeksCovered is how many weeks after the present one have partitions of every kind; -1 where the present one lacks some.
func weeksCovered(partitions []partition, now time.Time) int {
	week := weekOf(now)
	for weeks := range 1 + weeksAhead {
		for _, kind := range partitionKinds() {
			if !covered(partitions, kind, week) {
				return weeks - 1
			}
		}
		week = week.Add(partitionWeek)
	}
	return weeksAhead
}

// measure tells how far vacuum is behind.
func (k *keeper) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	for _, kind := range partitionKinds() {
		var dead, live float64
		// Not through sqlc, which does not know the statistics' views.
		err := k.pool.QueryRow(ctx, `SELECT coalesce(sum(n_dead_tup), 0)::float8, coalesce(sum(n_live_tup), 0)::float8
			FROM pg_stat_user_tables WHERE schemaname = current_schema() AND starts_with(relname, $1)`, "webhook_"+kind+"_").Scan(&dead, &live)
		if err != nil {
			return fmt.Errorf("count the dead rows of %s: %w", kind, err)
		}
		k.metrics.rows.WithLabelValues("webhook_"+kind, "dead").Set(dead)
		k.metrics.rows.WithLabelValues("webhook_"+kind, "live").Set(live)
	}
	return nil
}

func (k *keeper) addWeek(ctx context.Context, kind string, week time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	outcome, err := k.queries.AddPartition(ctx, webhooksdb.AddPartitionParams{Kind: kind, Starts: week, Ends: week.Add(partitionWeek)})
	name := kind + " " + week.Format(time.DateOnly)
	switch {
	case err != nil:
		return fmt.Errorf("add the partition of %s: %w", name, err)
	case outcome == "added":
		k.logger.InfoContext(ctx, "webhook partition added", "partition", name)
	case outcome == "crowded" && !k.crowded[name]:
		k.crowded[name] = true
		k.logger.WarnContext(ctx, "the default partition holds too much of a week to move it to a partition of its own; "+
			"it stays there until it is old", "partition", name)
	}
	return nil
}

// retire drops the partitions that hold nothing of the retention and nothing that is needed still.
func (k *keeper) retire(ctx context.Context, now time.Time) error {
	partitions, err := k.partitions(ctx)
	if err != nil {
		return err
	}
	errs := []error{k.endPending(ctx, "webhook_deliveries_default", now)}
	kept := 0
	bound := firstID(now.Add(-k.keep))
	for _, kind := range partitionKinds() {
		for _, p := range partitions {
			if p.Kind != kind || !p.Upper.Valid || bytes.Compare(p.Upper.UUID[:], bound[:]) > 0 {
				continue
			}
			pending, err := k.retireOne(ctx, p)
			if pending && p.Kind == "deliveries" {
				errs = append(errs, k.endPending(ctx, p.Name, now))
				pending, err = k.retireOne(ctx, p)
			}
			if pending {
				kept++
				k.logger.WarnContext(ctx, "an old webhook partition is kept for deliveries that are pending", "partition", p.Name)
			}
			errs = append(errs, err)
		}
	}
	k.metrics.kept.Set(float64(kept))
	drop, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	if _, err := k.queries.DropRetired(drop); err != nil {
		errs = append(errs, fmt.Errorf("drop retired partitions: %w", err))
	}
	return errors.Join(errs...)
}

// endPending fails deliveries of a partition that have been pending for too long: they would be for ever, as one whose
// signing secret no worker can read.
func (k *keeper) endPending(ctx context.Context, name string, now time.Time) error {
	bound := firstID(now.Add(-max(k.keep, pendingLeast) - pendingGrace))
	for {
		statement, cancel := context.WithTimeout(ctx, keepTimeout)
		ended, err := k.queries.EndPending(statement, webhooksdb.EndPendingParams{Name: name, Bound: bound, Most: sweepChunk})
		cancel()
		if err != nil {
			return fmt.Errorf("end what is pending in %s: %w", name, err)
		}
		if ended == 0 {
			return nil
		}
		k.logger.WarnContext(ctx, "webhook deliveries failed that were pending for too long", "partition", name, "count", ended)
	}
}

// retireOne detaches a partition, and reports whether it stays for deliveries that are pending.
func (k *keeper) retireOne(ctx context.Context, p partition) (pending bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	outcome, err := k.queries.RetirePartition(ctx, webhooksdb.RetirePartitionParams{Kind: p.Kind, Name: p.Name})
	if err != nil {
		return false, fmt.Errorf("retire %s: %w", p.Name, err)
	}
	if outcome == "retired" {
		k.logger.InfoContext(ctx, "webhook partition retired", "partition", p.Name)
	}
	return outcome == "pending", nil
}

// sweep deletes what of the default partitions is older than a moment.
func (k *keeper) sweep(ctx context.Context, before time.Time) error {
	for ctx.Err() == nil {
		statement, cancel := context.WithTimeout(ctx, keepTimeout)
		swept, err := k.queries.SweepDefault(statement, webhooksdb.SweepDefaultParams{Bound: firstID(before), Most: sweepChunk})
		cancel()
		if err != nil {
			return fmt.Errorf("sweep the default partitions: %w", err)
		}
		if swept == 0 {
			return nil
		}
	}
	return nil
}

// firstID is the least id (UUIDv7) of a moment.
func firstID(at time.Time) uuid.UUID {
	var id uuid.UUID
	var millis [8]byte
	binary.BigEndian.PutUint64(millis[:], uint64(max(at.UnixMilli(), 0)))
	copy(id[:], millis[2:])
	return id
}

// keeperMetrics tell whether partitions are looked after.
type keeperMetrics struct {
	partitions prometheus.Gauge
	ahead      prometheus.Gauge
	rows       *prometheus.GaugeVec
	kept       prometheus.Gauge
	success    prometheus.Gauge
	errors     prometheus.Counter
}

func newKeeperMetrics(registerer prometheus.Registerer) *keeperMetrics {
	m := &keeperMetrics{
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_partitions", Help: "Partitions of events, deliveries and tries.",
		}),
		ahead: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_partitions_ahead",
			Help: "How many partitions, of a week each, stand ready after the present one; -1 where the present one is missing.",
		}),
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "examprep_webhook_rows", Help: "Rows by table, alive or waiting for vacuum, as PostgreSQL estimates them.",
		}, []string{"relation", "state"}),
		kept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_partitions_kept",
			Help: "Partitions older than the retention that are kept for deliveries that are pending.",
		}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_retention_success_timestamp_seconds",
			Help: "When this worker last looked after all partitions without an error; 0: never yet.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_retention_errors_total",
			Help: "Times that partitions could not all be looked after; tried again after a minute.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.partitions, m.ahead, m.rows, m.kept, m.success, m.errors)
	}
	return m
}
