package retention

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// bench is a database whose partitions are maintained.
type bench struct{ pool *pgxpool.Pool }

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{testkit.Database(t)}
}

// maintainer returns a Maintainer for which the database's time is now.
func (b *bench) maintainer(t *testing.T, now time.Time) *Maintainer {
	t.Helper()
	m, err := New(Config{StatementTimeout: testkit.Patience}, b.pool)
	check.NoError(t, err)
	m.now = func(context.Context) (time.Time, error) { return now, nil }
	return m
}

// maintain maintains the partitions once, at a time.
func (b *bench) maintain(t *testing.T, now time.Time) {
	t.Helper()
	check.NoError(t, b.maintainer(t, now).maintain(t.Context()))
}

// partitions returns the names of the partitions of a kind, oldest first.
func (b *bench) partitions(t *testing.T, kind string) (names []string) {
	t.Helper()
	partitions, err := b.maintainer(t, time.Time{}).partitions(t.Context())
	check.NoError(t, err)
	for _, p := range partitions {
		if p.Kind == kind {
			names = append(names, p.Name)
		}
	}
	return names
}

// insert writes an event, its delivery and an attempt, all with the least id of a moment.
func (b *bench) insert(t *testing.T, at time.Time, state string) {
	t.Helper()
	id := minIDAt(at)
	testkit.Exec(t, b.pool, "INSERT INTO webhook_events (id, kind, body) VALUES ($1, 'mock_attempt.scored', '{}')", id)
	testkit.Exec(t, b.pool, "INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, state) VALUES ($1, $1, gen_random_uuid(), 'mock_attempt.scored', $2)", id, state)
	testkit.Exec(t, b.pool, "INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms) VALUES ($1, 1, $2, 1)", id, at)
}

// rows counts the rows that insert wrote and that are left, in all three tables.
func (b *bench) rows(t *testing.T, at time.Time) int {
	t.Helper()
	return testkit.Get[int](t, b.pool, `SELECT (SELECT count(*) FROM webhook_events WHERE id = $1)
		+ (SELECT count(*) FROM webhook_deliveries WHERE id = $1) + (SELECT count(*) FROM webhook_attempts WHERE delivery_id = $1)`,
		minIDAt(at))
}

// expect compares a count.
func (b *bench) expect(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	if got := testkit.Get[int](t, b.pool, query, args...); got != want {
		t.Errorf("%s: got %d, want %d", query, got, want)
	}
}

func TestWeeksCoveredHaveAPartitionOfEveryTable(t *testing.T) {
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

func TestPartitionIsMadeAheadAndDroppedAfterTheRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek) // beyond what the migration made
	b.maintain(t, start)
	inFirst, inLast := start.Add(time.Hour), start.Add((weeksAhead+1)*partitionWeek-time.Millisecond)
	b.insert(t, inFirst, "delivered")
	b.insert(t, inLast, "failed")
	b.expect(t, 0, "SELECT (SELECT count(*) FROM webhook_events_default) + (SELECT count(*) FROM webhook_deliveries_default) + (SELECT count(*) FROM webhook_attempts_default)")

	end := start.Add(partitionWeek + webhooks.DefaultRetention)
	b.maintain(t, end.Add(-time.Millisecond))
	if n := b.rows(t, inFirst); n != 3 {
		t.Errorf("%d of 3 rows are kept to the end of their time", n)
	}
	b.maintain(t, end)
	b.expect(t, 1, "SELECT count(*) FROM webhook_events WHERE id = $1", minIDAt(inFirst)) // a redelivery needs the body
	if n := b.rows(t, inFirst); n != 1 {
		t.Errorf("%d of 2 rows are kept beyond their time", n-1)
	}
	if n := b.rows(t, inLast); n != 3 {
		t.Errorf("%d of 3 rows are left of a later week", n)
	}
	for _, kind := range partitionKinds() {
		names := b.partitions(t, kind)
		first := "webhook_" + kind + "_" + start.Add(partitionWeek).Format("20060102")
		if kind == "events" {
			names = names[1:]
		}
		if names[0] != first || !strings.HasSuffix(names[len(names)-1], "_default") {
			t.Errorf("%s are in %q, want them from %s on", kind, names, first)
		}
	}
	b.expect(t, 0, "SELECT count(*) FROM pg_class WHERE relname ~ '^webhook_(events|deliveries|attempts)_[0-9]{8}$' AND NOT relispartition")
	// A delivery that was sent again just before it was dropped is a row of a later week, and needs the event as long as it stays.
	last := end.Add(webhooks.DefaultRetention + 2*partitionWeek)
	b.maintain(t, last.Add(-time.Millisecond))
	b.expect(t, 1, "SELECT count(*) FROM webhook_events WHERE id = $1", minIDAt(inFirst))
	b.maintain(t, last)
	if n := b.rows(t, inFirst); n != 0 {
		t.Errorf("%d events are kept beyond their time", n)
	}
}

func TestPartitionWithAPendingDeliveryStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	b.maintain(t, start)
	b.insert(t, start, "pending")
	b.maintain(t, start.Add(partitionWeek+webhooks.DefaultRetention))
	if n := b.rows(t, start); n != 3 {
		t.Errorf("%d of 3 rows are kept", n)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'delivered' WHERE id = $1", minIDAt(start))
	b.maintain(t, start.Add(2*partitionWeek+webhooks.DefaultRetention))
	if n := b.rows(t, start); n != 1 {
		t.Errorf("%d rows are left, want the event", n)
	}
}

func TestPartitionWithAPendingDeliveryIsDroppedAWeekLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	b.maintain(t, start)
	b.insert(t, start, "pending")
	end := start.Add(2*partitionWeek + webhooks.DefaultRetention)
	b.maintain(t, end.Add(-time.Millisecond))
	if n := b.rows(t, start); n != 3 {
		t.Errorf("%d of 3 rows are kept", n)
	}
	b.maintain(t, end)
	if n := b.rows(t, start); n != 1 {
		t.Errorf("%d rows are left, want the event", n)
	}
}

func TestRowsOfTheDefaultPartitionAreCountedAndLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := weekOf(time.Now()).Add(20 * partitionWeek)
	b.insert(t, now.Add(-52*partitionWeek), "pending")
	m := b.maintainer(t, now)
	check.NoError(t, m.maintain(t.Context()))
	for _, kind := range partitionKinds() {
		if n := testutil.ToFloat64(m.metrics.strays.WithLabelValues("webhook_" + kind)); n != 1 {
			t.Errorf("%v rows of the default partition of %s are counted, want 1", n, kind)
		}
	}
}

// TestWorkersMaintainPartitionsAtOnceAndNoEventIsRefused lets several workers maintain four weeks at once, while events are
// recorded.
func TestWorkersMaintainPartitionsAtOnceAndNoEventIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	testkit.Exec(t, b.pool, "INSERT INTO webhook_endpoints (id, url, events) VALUES (gen_random_uuid(), 'https://127.0.0.1:1/', '{mock_attempt.scored}')")
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
				if err := insist(t.Context(), b.maintainer(t, begin.Add(time.Duration(week)*partitionWeek))); err != nil {
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
	b.maintain(t, begin.Add(3*partitionWeek)) // a worker skips what another one is doing
	b.expect(t, recorded, "SELECT count(*) FROM webhook_events")
	b.expect(t, recorded, "SELECT count(*) FROM webhook_deliveries")
	for _, kind := range partitionKinds() {
		names := b.partitions(t, kind)
		if last := "webhook_" + kind + "_" + begin.Add((3+weeksAhead)*partitionWeek).Format("20060102"); !slices.Contains(names, last) {
			t.Errorf("%s are in %q, without %s", kind, names, last)
		}
	}
}

// insist maintains partitions again as long as another session's lock prevents it.
func insist(ctx context.Context, m *Maintainer) error {
	for {
		err := m.maintain(ctx)
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
	if err := b.maintainer(t, now).maintain(t.Context()); err == nil {
		t.Error("retention did not report what it could not do")
	}
	testkit.Exec(t, b.pool, "SELECT webhook_record_event($1, 'mock_attempt.scored', NULL, '{}')", minIDAt(now))
	if err := dump.Commit(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	b.maintain(t, now)
	b.expect(t, 0, "SELECT count(*) FROM webhook_events_default")
}

// TestAPartitionThatCannotBeDroppedKeepsNoOther: a view depends on the oldest partition.
func TestAPartitionThatCannotBeDroppedKeepsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek) // beyond what the migration made
	b.maintain(t, start)
	first, second := start.Add(time.Hour), start.Add(partitionWeek+time.Hour)
	b.insert(t, first, "delivered")
	b.insert(t, second, "delivered")
	testkit.Exec(t, b.pool, "CREATE VIEW report AS SELECT id FROM webhook_deliveries_"+start.Format("20060102"))
	end := start.Add(2*partitionWeek + webhooks.DefaultRetention)
	if err := b.maintainer(t, end).maintain(t.Context()); err == nil || !strings.Contains(err.Error(), "webhook_deliveries_"+start.Format("20060102")) {
		t.Errorf("got the error %v, want one that names the partition", err)
	}
	if of, others := b.rows(t, first), b.rows(t, second); of != 3 || others != 1 {
		t.Errorf("%d rows of the week with the view and %d of the next one are left, want 3 and the event", of, others)
	}
	testkit.Exec(t, b.pool, "DROP VIEW report")
	b.maintain(t, end)
	if n := b.rows(t, first); n != 1 {
		t.Errorf("%d rows are left without the view, want the event", n)
	}
}

func TestRetentionThatIsTooShortIsRefused(t *testing.T) {
	t.Parallel()
	var invalid *webhooks.ValidationError
	if _, err := New(Config{Retention: webhooks.MinRetention - 1}, nil); !errors.As(err, &invalid) || invalid.Field != "retention" {
		t.Errorf("got %v, want a ValidationError of retention", err)
	}
}

func TestLeastIDOfAMomentIsTheDatabases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Now().Truncate(time.Millisecond)
	var id uuid.UUID
	if err := b.pool.QueryRow(t.Context(), "SELECT uuidv7_at($1)", at).Scan(&id); err != nil || id != minIDAt(at) {
		t.Errorf("got %s and %v, want %s", id, err, minIDAt(at))
	}
}

func TestReadingTheDatabasesTimeHasATimeout(t *testing.T) {
	t.Parallel()
	m := new(bench).maintainer(t, time.Time{})
	away := errors.New("PostgreSQL is away")
	m.now = func(ctx context.Context) (time.Time, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the statement has no timeout")
		}
		return time.Time{}, away
	}
	if err := m.maintain(t.Context()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
