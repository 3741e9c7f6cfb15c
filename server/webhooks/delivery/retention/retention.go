package retention

import (
	"bytes"
	"cmp"
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
	"examprep.dev/server/webhooks"
)

const (
	// partitionWeek is what a partition holds, counted from the epoch. weeksAhead is how many weeks after the current one have
	// partitions, as in server/postgres/migrate.go.
	partitionWeek = 7 * 24 * time.Hour
	weeksAhead    = 8
	// interval is how often partitions are maintained, retryInterval how soon after a failure: mostly a lock that another
	// session holds.
	interval      = 10 * time.Minute
	retryInterval = time.Minute
	// statementTimeout is the default of Config.StatementTimeout.
	statementTimeout = time.Minute
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

// Config holds a Maintainer's settings; zero values take the defaults.
type Config struct {
	// Retention is how long deliveries and attempts are kept, at least webhooks.MinRetention
	// (webhooks.DefaultRetention). A row is deleted with its week, so up to a week later. Events are kept for twice as long and two
	// weeks more.
	Retention time.Duration
	// StatementTimeout limits each statement (1 min). Adding or dropping a partition is one statement.
	StatementTimeout time.Duration
	// Registerer gets the metrics; nil: they are not registered.
	Registerer prometheus.Registerer
	// Logger gets a message for each partition that is added, dropped or kept too long, and for each failure; nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Retention = cmp.Or(c.Retention, webhooks.DefaultRetention)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, statementTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Maintainer makes partitions ahead and drops those that are older than they must be kept. Any number of workers have one;
// each step is one statement that one of them executes.
type Maintainer struct {
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keep    time.Duration
	timeout time.Duration // of a statement
	// now is the database's time, which ids are made of: a worker with a wrong clock drops nothing.
	now     func(context.Context) (time.Time, error)
	metrics *metrics
	logger  *slog.Logger
}

// New returns a Maintainer of the database behind pool, and registers its metrics. It returns a *[webhooks.ValidationError]
// of the field "retention", and registers nothing, if cfg.Retention is shorter than webhooks.MinRetention.
func New(cfg Config, pool *pgxpool.Pool) (*Maintainer, error) {
	cfg = cfg.withDefaults()
	if cfg.Retention < webhooks.MinRetention {
		return nil, &webhooks.ValidationError{Field: "retention", Detail: fmt.Sprintf("must be at least %s", webhooks.MinRetention)}
	}
	queries := webhooksdb.New(pool)
	return &Maintainer{
		pool: pool, queries: queries, keep: cfg.Retention, timeout: cfg.StatementTimeout, now: queries.DatabaseTime,
		metrics: newMetrics(cfg.Registerer), logger: cfg.Logger,
	}, nil
}

// Run maintains the partitions at once and then every 10 minutes, until ctx ends. It logs and counts a failure, and tries
// again after a minute.
func (m *Maintainer) Run(ctx context.Context) {
	for {
		wait := interval
		if err := m.maintain(ctx); err == nil {
			m.metrics.success.SetToCurrentTime()
		} else if ctx.Err() == nil {
			m.metrics.errors.Inc()
			m.logger.WarnContext(ctx, "not all webhook partitions were maintained, retrying", "error", err)
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// maintain does everything once. A step that fails does not prevent the others.
func (m *Maintainer) maintain(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	now, err := m.now(asking)
	if err != nil {
		return fmt.Errorf("read the database's time: %w", err)
	}
	partitions, err := m.partitions(ctx)
	if err != nil {
		return err
	}
	errs := []error{m.add(ctx, partitions, now), m.drop(ctx, partitions, now)}
	if partitions, err = m.partitions(ctx); err == nil {
		m.metrics.partitions.Set(float64(len(partitions)))
		m.metrics.ahead.Set(float64(weeksCovered(partitions, now)))
	}
	return errors.Join(append(errs, err, m.measure(ctx))...)
}

func (m *Maintainer) partitions(ctx context.Context) ([]partition, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	rows, _ := m.pool.Query(ctx, "SELECT kind, name, lower, upper FROM webhook_partitions ORDER BY kind, upper") // CollectRows returns its error
	partitions, err := pgx.CollectRows(rows, pgx.RowToStructByName[partition])
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return partitions, nil
}

// add makes the missing partitions of this week and the next ones.
func (m *Maintainer) add(ctx context.Context, partitions []partition, now time.Time) error {
	var errs []error
	for n := range 1 + weeksAhead {
		week := weekOf(now).Add(time.Duration(n) * partitionWeek)
		for _, kind := range partitionKinds() {
			if !hasPartition(partitions, kind, week) {
				errs = append(errs, m.addPartition(ctx, kind, week))
			}
		}
	}
	return errors.Join(errs...)
}

func (m *Maintainer) addPartition(ctx context.Context, kind string, week time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	added, err := m.queries.AddPartition(ctx, webhooksdb.AddPartitionParams{Kind: kind, Starts: week, Ends: week.Add(partitionWeek)})
	if err != nil {
		return fmt.Errorf("add the partition of %s from %s: %w", kind, week.Format(time.DateOnly), err)
	}
	if added {
		m.logger.InfoContext(ctx, "webhook partition added", "kind", kind, "week", week.Format(time.DateOnly))
	}
	return nil
}

// drop drops old partitions: deliveries without pending rows, then the attempts of the same week. Events are kept for twice the
// retention and two weeks: a delivery can be sent again until it is dropped, and the new one is shown and can be sent again for as
// long as any other.
func (m *Maintainer) drop(ctx context.Context, partitions []partition, now time.Time) error {
	expired := now.Add(-m.keep)
	stuck := now.Add(-max(m.keep, webhooks.DefaultRetention) - pendingGrace)
	var errs []error
	kept := make(map[uuid.UUID]bool) // the weeks that have deliveries, by their upper bound
	for _, kind := range partitionKinds() {
		for _, p := range partitions {
			if p.Kind != kind || !p.Upper.Valid {
				continue
			}
			old := p.endsBefore(expired) && !kept[p.Upper.UUID]
			if kind == "events" {
				old = old && p.endsBefore(expired.Add(-m.keep-2*partitionWeek))
			}
			dropped := false
			if old {
				var err error
				dropped, err = m.dropPartition(ctx, p, p.endsBefore(stuck))
				errs = append(errs, err)
			}
			if kind == "deliveries" && !dropped {
				kept[p.Upper.UUID] = true
			}
		}
	}
	return errors.Join(errs...)
}

func (m *Maintainer) dropPartition(ctx context.Context, p partition, force bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	dropped, err := m.queries.DropPartition(ctx, webhooksdb.DropPartitionParams{Kind: p.Kind, Name: p.Name, Force: force})
	if err != nil {
		return false, fmt.Errorf("drop %s: %w", p.Name, err)
	}
	if dropped {
		m.logger.InfoContext(ctx, "webhook partition dropped", "partition", p.Name)
	} else {
		m.logger.WarnContext(ctx, "old webhook partition kept: it has pending deliveries, or another worker maintains partitions", "partition", p.Name)
	}
	return dropped, nil
}

// measure counts rows that wait for vacuum, and rows in default partitions.
func (m *Maintainer) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	for _, kind := range partitionKinds() {
		var dead, live, strays float64
		// Not in sqlc, which does not know the statistics' views.
		err := m.pool.QueryRow(ctx, `SELECT coalesce(sum(n_dead_tup), 0)::float8, coalesce(sum(n_live_tup), 0)::float8,
				(SELECT count(*) FROM (SELECT FROM `+pgx.Identifier{"webhook_" + kind + "_default"}.Sanitize()+` LIMIT 10000) s)::float8
			FROM pg_stat_user_tables WHERE schemaname = current_schema() AND starts_with(relname, $1)`, "webhook_"+kind+"_").Scan(&dead, &live, &strays)
		if err != nil {
			return fmt.Errorf("count the rows of %s: %w", kind, err)
		}
		m.metrics.rows.WithLabelValues("webhook_"+kind, "dead").Set(dead)
		m.metrics.rows.WithLabelValues("webhook_"+kind, "live").Set(live)
		m.metrics.strays.WithLabelValues("webhook_" + kind).Set(strays)
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
