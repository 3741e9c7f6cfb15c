package delivery

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

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
)

const (
	// MinRetention keeps deliveries from disappearing while someone is reading them.
	MinRetention = 24 * time.Hour
	// partitionWeek is what a partition holds, counted from the epoch. weeksAhead is how many weeks after the current one have
	// partitions, as in server/postgres/migrate.go.
	partitionWeek = 7 * 24 * time.Hour
	weeksAhead    = 8
	// retentionInterval is how often partitions are maintained, retentionRetry how soon after a failure: mostly a lock that
	// another session holds. retentionTimeout limits one statement.
	retentionInterval = 10 * time.Minute
	retentionRetry    = time.Minute
	retentionTimeout  = time.Minute
	// pendingGrace is how much longer than the retention, and than DefaultRetention, pending deliveries are kept. Only a
	// delivery that cannot be sent is pending for so long.
	pendingGrace = partitionWeek
)

// partitionKinds are the tables that have partitions of the same weeks, in the order in which they are dropped.
func partitionKinds() [3]string { return [...]string{"deliveries", "attempts", "events"} }

// A partition has the ids (UUIDv7) from Lower to before Upper. The default partition has neither.
type partition struct {
	Kind, Name   string
	Lower, Upper uuid.NullUUID
}

// endsBefore reports whether all ids of a partition are from before a moment.
func (p partition) endsBefore(at time.Time) bool {
	bound := minIDAt(at)
	return p.Upper.Valid && bytes.Compare(p.Upper.UUID[:], bound[:]) <= 0
}

// retention makes partitions ahead and drops those that are older than they must be kept. Any number of workers do so; each
// step is one statement that one of them executes.
type retention struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keep    time.Duration
	timeout time.Duration // of a statement
	// now is the database's time, which ids are made of: a worker with a wrong clock drops nothing.
	now     func(context.Context) (time.Time, error)
	metrics *retentionMetrics
	logger  *slog.Logger
}

func (r *retention) run(ctx context.Context) {
	for interval := retentionInterval; ; {
		if err := r.retain(ctx); err == nil {
			r.metrics.success.SetToCurrentTime()
			interval = retentionInterval
		} else if ctx.Err() == nil {
			r.metrics.errors.Inc()
			r.logger.WarnContext(ctx, "not all webhook partitions were maintained, retrying", "error", err)
			interval = retentionRetry
		}
		if !pause(ctx, interval) {
			return
		}
	}
}

// retain does everything once. A step that fails does not prevent the others.
func (r *retention) retain(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	now, err := r.now(asking)
	if err != nil {
		return fmt.Errorf("read the database's time: %w", err)
	}
	partitions, err := r.partitions(ctx)
	if err != nil {
		return err
	}
	errs := []error{r.add(ctx, partitions, now), r.drop(ctx, partitions, now)}
	if partitions, err = r.partitions(ctx); err == nil {
		r.metrics.partitions.Set(float64(len(partitions)))
		r.metrics.ahead.Set(float64(weeksCovered(partitions, now)))
	}
	return errors.Join(append(errs, err, r.measure(ctx))...)
}

func (r *retention) partitions(ctx context.Context) ([]partition, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	rows, _ := r.pool.Query(ctx, "SELECT kind, name, lower, upper FROM webhook_partitions ORDER BY kind, upper") // CollectRows returns its error
	partitions, err := pgx.CollectRows(rows, pgx.RowToStructByName[partition])
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return partitions, nil
}

// add makes the missing partitions of this week and the next ones.
func (r *retention) add(ctx context.Context, partitions []partition, now time.Time) error {
	var errs []error
	for n := range 1 + weeksAhead {
		week := weekOf(now).Add(time.Duration(n) * partitionWeek)
		for _, kind := range partitionKinds() {
			if !hasPartition(partitions, kind, week) {
				errs = append(errs, r.addPartition(ctx, kind, week))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *retention) addPartition(ctx context.Context, kind string, week time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	added, err := r.queries.AddPartition(ctx, webhooksdb.AddPartitionParams{Kind: kind, Starts: week, Ends: week.Add(partitionWeek)})
	if err != nil {
		return fmt.Errorf("add the partition of %s from %s: %w", kind, week.Format(time.DateOnly), err)
	}
	if added {
		r.logger.InfoContext(ctx, "webhook partition added", "kind", kind, "week", week.Format(time.DateOnly))
	}
	return nil
}

// drop drops old partitions: deliveries without pending rows, then the attempts of the same week, then events a week later,
// so that the last redelivery finds its body.
func (r *retention) drop(ctx context.Context, partitions []partition, now time.Time) error {
	expired := now.Add(-r.keep)
	stuck := now.Add(-max(r.keep, webhooks.DefaultRetention) - pendingGrace)
	var errs []error
	kept := make(map[uuid.UUID]bool) // the weeks that have deliveries, by their upper bound
	for _, kind := range partitionKinds() {
		for _, p := range partitions {
			if p.Kind != kind || !p.Upper.Valid {
				continue
			}
			old := p.endsBefore(expired) && !kept[p.Upper.UUID]
			if kind == "events" {
				old = old && p.endsBefore(expired.Add(-partitionWeek))
			}
			dropped := false
			if old {
				var err error
				dropped, err = r.dropPartition(ctx, p, p.endsBefore(stuck))
				errs = append(errs, err)
			}
			if kind == "deliveries" && !dropped {
				kept[p.Upper.UUID] = true
			}
		}
	}
	return errors.Join(errs...)
}

func (r *retention) dropPartition(ctx context.Context, p partition, force bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	dropped, err := r.queries.DropPartition(ctx, webhooksdb.DropPartitionParams{Kind: p.Kind, Name: p.Name, Force: force})
	if err != nil {
		return false, fmt.Errorf("drop %s: %w", p.Name, err)
	}
	if dropped {
		r.logger.InfoContext(ctx, "webhook partition dropped", "partition", p.Name)
	} else {
		r.logger.WarnContext(ctx, "old webhook partition kept: it has pending deliveries, or another worker maintains partitions", "partition", p.Name)
	}
	return dropped, nil
}

// measure counts rows that wait for vacuum, and rows in default partitions.
func (r *retention) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for _, kind := range partitionKinds() {
		var dead, live, strays float64
		// Not in sqlc, which does not know the statistics' views.
		err := r.pool.QueryRow(ctx, `SELECT coalesce(sum(n_dead_tup), 0)::float8, coalesce(sum(n_live_tup), 0)::float8,
				(SELECT count(*) FROM (SELECT FROM `+pgx.Identifier{"webhook_" + kind + "_default"}.Sanitize()+` LIMIT 10000) s)::float8
			FROM pg_stat_user_tables WHERE schemaname = current_schema() AND starts_with(relname, $1)`, "webhook_"+kind+"_").Scan(&dead, &live, &strays)
		if err != nil {
			return fmt.Errorf("count the rows of %s: %w", kind, err)
		}
		r.metrics.rows.WithLabelValues("webhook_"+kind, "dead").Set(dead)
		r.metrics.rows.WithLabelValues("webhook_"+kind, "live").Set(live)
		r.metrics.strays.WithLabelValues("webhook_" + kind).Set(strays)
	}
	return nil
}

// weekOf is when the week of a moment begins.
func weekOf(at time.Time) time.Time {
	return time.Unix(at.Unix()-at.Unix()%int64(partitionWeek/time.Second), 0).UTC()
}

// hasPartition reports whether a table has a partition for a week.
func hasPartition(partitions []partition, kind string, week time.Time) bool {
	id := minIDAt(week)
	for _, p := range partitions {
		after := p.Upper.Valid && bytes.Compare(id[:], p.Upper.UUID[:]) < 0
		if p.Kind == kind && after && (!p.Lower.Valid || bytes.Compare(id[:], p.Lower.UUID[:]) >= 0) {
			return true
		}
	}
	return false
}

// weeksCovered is how many weeks after the current one have partitions of every kind; -1 if the current one lacks some.
func weeksCovered(partitions []partition, now time.Time) int {
	for n := range 1 + weeksAhead {
		for _, kind := range partitionKinds() {
			if !hasPartition(partitions, kind, weekOf(now).Add(time.Duration(n)*partitionWeek)) {
				return n - 1
			}
		}
	}
	return weeksAhead
}

// minIDAt is the least id (UUIDv7) of a moment.
func minIDAt(at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(at.UnixMilli(), 0))<<16) // the first 48 bits are milliseconds (RFC 9562 §5.7)
	return id
}
