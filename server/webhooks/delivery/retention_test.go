package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// retention returns one whose time is the test's.
func (b *bench) retention(now time.Time) *retention {
	return &retention{
		pool: b.pool, queries: webhooksdb.New(b.pool), keep: webhooks.DefaultRetention, timeout: testkit.Patience, metrics: newRetentionMetrics(nil),
		now: func(context.Context) (time.Time, error) { return now, nil }, logger: slog.New(slog.DiscardHandler),
	}
}

func TestWeeksCoveredAreThoseOfWhichEveryTableHasItsPartition(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	week := func(n int) uuid.NullUUID {
		return uuid.NullUUID{UUID: minIDAt(weekOf(now).Add(time.Duration(n) * partitionWeek)), Valid: true}
	}
	all := func(from, until int) (partitions []partition) {
		for _, kind := range partitionKinds() {
			for n := from; n < until; n++ {
				partitions = append(partitions, partition{Kind: kind, Lower: week(n), Upper: week(n + 1)})
			}
		}
		return partitions
	}
	first := partitionKinds()[0]
	for _, c := range []struct {
		name       string
		partitions []partition
		want       int
	}{
		{"none", nil, -1},
		{"the last one", all(-1, 0), -1},
		{"this one", all(0, 1), 0},
		{"this one and two more", all(0, 3), 2},
		{"a gap", append(all(0, 2), all(3, 5)...), 1},
		{"one of all ages before", append(all(1, 3), partition{Kind: first, Upper: week(1)}), -1},
		{"one kind lacks one", slices.DeleteFunc(all(0, 3), func(p partition) bool { return p.Kind == first && p.Lower == week(2) }), 1},
		{"more than are made ahead", all(0, weeksAhead+3), weeksAhead},
	} {
		if got := weeksCovered(c.partitions, now); got != c.want {
			t.Errorf("%s: %d weeks, want %d", c.name, got, c.want)
		}
	}
}

// of are the names of the partitions of a kind, oldest first.
func of(t *testing.T, k *retention, kind string) (names []string) {
	t.Helper()
	partitions, err := k.partitions(t.Context())
	check.NoError(t, err)
	for _, p := range partitions {
		if p.Kind == kind {
			names = append(names, p.Name)
		}
	}
	return names
}

// told writes an event, its delivery and the try of it, all of a moment.
func (b *bench) told(t *testing.T, at time.Time, state string) {
	t.Helper()
	testkit.Exec(t, b.pool, "INSERT INTO webhook_events (id, kind, body) VALUES ($1, 'mock_attempt.scored', '{}')", minIDAt(at))
	testkit.Exec(t, b.pool, "INSERT INTO webhook_deliveries (id, event_id, endpoint_id, state) VALUES ($1, $1, gen_random_uuid(), $2)", minIDAt(at), state)
	testkit.Exec(t, b.pool, "INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms) VALUES ($1, 1, $2, 1)", minIDAt(at), at)
}

// rows counts what is kept of a moment, in all three tables.
func (b *bench) rows(t *testing.T, at time.Time) int {
	t.Helper()
	return testkit.Get[int](t, b.pool, `SELECT (SELECT count(*) FROM webhook_events WHERE id = $1)
		+ (SELECT count(*) FROM webhook_deliveries WHERE id = $1) + (SELECT count(*) FROM webhook_attempts WHERE delivery_id = $1)`,
		minIDAt(at))
}

func keep(t *testing.T, k *retention) {
	t.Helper()
	check.NoError(t, k.retain(t.Context()))
}

func TestPartitionsComeBeforeTheirTimeAndGoAfterIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek) // beyond what the migration made
	keep(t, b.retention(start))
	inFirst, inLast := start.Add(time.Hour), start.Add((weeksAhead+1)*partitionWeek-time.Millisecond)
	b.told(t, inFirst, "delivered")
	b.told(t, inLast, "failed")
	b.until(t, 0, "SELECT (SELECT count(*) FROM webhook_events_default) + (SELECT count(*) FROM webhook_deliveries_default) + (SELECT count(*) FROM webhook_attempts_default)")

	end := start.Add(partitionWeek + webhooks.DefaultRetention)
	keep(t, b.retention(end.Add(-time.Millisecond)))
	if n := b.rows(t, inFirst); n != 3 {
		t.Errorf("%d of 3 rows are kept to the end of their time", n)
	}
	k := b.retention(end)
	keep(t, k)
	b.until(t, 1, "SELECT count(*) FROM webhook_events WHERE id = $1", minIDAt(inFirst)) // a redelivery needs the body
	if n := b.rows(t, inFirst); n != 1 {
		t.Errorf("%d of 2 rows are kept beyond their time", n-1)
	}
	if n := b.rows(t, inLast); n != 3 {
		t.Errorf("%d of 3 rows are left of a later week", n)
	}
	for _, kind := range partitionKinds() {
		names := of(t, k, kind)
		first := "webhook_" + kind + "_" + start.Add(partitionWeek).Format("20060102")
		if kind == "events" {
			names = names[1:]
		}
		if names[0] != first || !strings.HasSuffix(names[len(names)-1], "_default") {
			t.Errorf("%s are in %q, want them from %s on", kind, names, first)
		}
	}
	b.until(t, 0, "SELECT count(*) FROM pg_class WHERE relname ~ '^webhook_(events|deliveries|attempts)_[0-9]{8}$' AND NOT relispartition")
	keep(t, b.retention(end.Add(partitionWeek)))
	if n := b.rows(t, inFirst); n != 0 {
		t.Errorf("%d events are kept beyond their time", n)
	}
}

func TestAPartitionWithAPendingDeliveryStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	keep(t, b.retention(start))
	b.told(t, start, "pending")
	k := b.retention(start.Add(partitionWeek + webhooks.DefaultRetention))
	keep(t, k)
	if n := b.rows(t, start); n != 3 {
		t.Errorf("%d of 3 rows are kept", n)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'delivered' WHERE id = $1", minIDAt(start))
	keep(t, b.retention(start.Add(2*partitionWeek+webhooks.DefaultRetention)))
	if n := b.rows(t, start); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestAPartitionWithAPendingDeliveryGoesAWeekLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	keep(t, b.retention(start))
	b.told(t, start, "pending")
	end := start.Add(2*partitionWeek + webhooks.DefaultRetention)
	keep(t, b.retention(end.Add(-time.Millisecond)))
	if n := b.rows(t, start); n != 3 {
		t.Errorf("%d of 3 rows are kept", n)
	}
	keep(t, b.retention(end))
	if n := b.rows(t, start); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestRowsOfTheDefaultPartitionAreCountedAndLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := weekOf(time.Now()).Add(20 * partitionWeek)
	b.told(t, now.Add(-52*partitionWeek), "pending")
	k := b.retention(now)
	keep(t, k)
	for _, kind := range partitionKinds() {
		if n := testutil.ToFloat64(k.metrics.strays.WithLabelValues("webhook_" + kind)); n != 1 {
			t.Errorf("%v rows of the default partition of %s are counted, want 1", n, kind)
		}
	}
}

// TestWorkersMaintainPartitionsAtOnceAndNoEventIsRefused lets time pass for several workers at once, while events of the present
// are recorded.
func TestWorkersMaintainPartitionsAtOnceAndNoEventIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.endpoint(t, "https://127.0.0.1:1/")
	begin := weekOf(time.Now())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others errgroup.Group
	recorded := 0
	others.Go(func() error {
		for ctx.Err() == nil {
			if _, err := b.pool.Exec(context.WithoutCancel(ctx), "SELECT webhook_record_event(uuidv7(), 'mock_attempt.scored', NULL, '{}')"); err != nil {
				return err
			}
			recorded++
		}
		return nil
	})
	var workers errgroup.Group
	for range 3 {
		workers.Go(func() error {
			for week := range 4 {
				if err := b.retention(begin.Add(time.Duration(week) * partitionWeek)).insist(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		t.Errorf("a worker: %v", err)
	}
	stop()
	if err := others.Wait(); err != nil {
		t.Errorf("recording an event: %v", err)
	}
	keep(t, b.retention(begin.Add(3*partitionWeek))) // what each left to another one that was at it
	b.until(t, recorded, "SELECT count(*) FROM webhook_events")
	b.until(t, recorded, "SELECT count(*) FROM webhook_deliveries")
	for _, kind := range partitionKinds() {
		names := of(t, b.retention(begin), kind)
		if last := "webhook_" + kind + "_" + begin.Add((3+weeksAhead)*partitionWeek).Format("20060102"); !slices.Contains(names, last) {
			t.Errorf("%s are in %q, without %s", kind, names, last)
		}
	}
}

// insist repeats what another session's lock prevented.
func (r *retention) insist(ctx context.Context) error {
	for {
		err := r.retain(ctx)
		if err == nil || !strings.Contains(err.Error(), "55P03") {
			return err
		}
	}
}

func TestLockOfAnotherSessionDelaysOnlyRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dump := testkit.Begin(t, b.pool, "LOCK TABLE webhook_events, webhook_deliveries IN ACCESS SHARE MODE")
	now := weekOf(time.Now()).Add(20 * partitionWeek)
	if err := b.retention(now).retain(t.Context()); err == nil {
		t.Error("retention did not report what it could not do")
	}
	testkit.Exec(t, b.pool, "SELECT webhook_record_event($1, 'mock_attempt.scored', NULL, '{}')", minIDAt(now))
	if err := dump.Commit(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	keep(t, b.retention(now))
	b.until(t, 0, "SELECT count(*) FROM webhook_events_default")
}

func TestAWorkerRefusesARetentionThatIsTooShort(t *testing.T) {
	t.Parallel()
	var invalid *webhooks.ValidationError
	if _, err := New(Config{Retention: MinRetention - 1}, nil, nil, nil); !errors.As(err, &invalid) || invalid.Field != "retention" {
		t.Errorf("got %v, want a ValidationError of retention", err)
	}
}

func TestTheFirstIDOfAMomentIsTheDatabases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Now().Truncate(time.Millisecond)
	var id uuid.UUID
	if err := b.pool.QueryRow(t.Context(), "SELECT uuidv7_at($1)", at).Scan(&id); err != nil || id != minIDAt(at) {
		t.Errorf("got %s and %v, want %s", id, err, minIDAt(at))
	}
}

func TestTheTimeIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	k := new(bench).retention(time.Time{})
	away := errors.New("PostgreSQL is away")
	k.now = func(ctx context.Context) (time.Time, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("nothing bounds the question")
		}
		return time.Time{}, away
	}
	if err := k.retain(t.Context()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
