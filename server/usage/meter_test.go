package usage_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// patient returns the settings of a meter whose time limits do not act in a test. registry can be nil.
func patient(registry *prometheus.Registry) usage.MeterConfig {
	cfg := usage.MeterConfig{
		Interval: time.Hour, FlushTimeout: testkit.Patience, LockTimeout: testkit.Patience, LastFlushTime: testkit.Patience,
	}
	if registry != nil {
		cfg.Registerer = registry
	}
	return cfg
}

func newMeter(pool *pgxpool.Pool, c *clock) *usage.Meter {
	cfg := patient(nil)
	cfg.Now = c.now
	return usage.NewMeter(pool, cfg)
}

func flush(t *testing.T, meter *usage.Meter) {
	t.Helper()
	write(t, meter)
	check.NoError(t, meter.RollUp(t.Context()))
}

// write has meter write what it counted, and nothing more.
func write(t *testing.T, meter *usage.Meter) {
	t.Helper()
	check.NoError(t, meter.Flush(t.Context()))
}

func usageOf(t *testing.T, pool *pgxpool.Pool, key uuid.UUID) [2]int64 {
	t.Helper()
	var sum [2]int64
	err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(requests), 0)::bigint, coalesce(sum(rate_limited), 0)::bigint
		FROM key_usage WHERE key_id = $1`, key).Scan(&sum[0], &sum[1])
	check.NoError(t, err)
	return sum
}

type madeKey struct {
	id, account uuid.UUID
	prefix      string
}

func newKey(t *testing.T, pool *pgxpool.Pool) madeKey {
	t.Helper()
	var key madeKey
	check.NoError(t, pool.QueryRow(t.Context(), `WITH account AS (
			INSERT INTO accounts (id, name) SELECT id, id::text FROM gen_random_uuid() id RETURNING id)
		INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT gen_random_uuid(), id, gen_random_uuid(), 'service_' || left(id::text, 8), sha256(id::text::bytea) FROM account
		RETURNING id, account_id, prefix`).Scan(&key.id, &key.account, &key.prefix))
	return key
}

// lastUse returns when a key was last used, as the view tells the owners of keys; nil if it never was.
func lastUse(t *testing.T, pool *pgxpool.Pool, key uuid.UUID) *time.Time {
	t.Helper()
	return testkit.Get[*time.Time](t, pool, "SELECT last_used_at FROM api_key_uses WHERE key_id = $1", key)
}

func TestUseIsWrittenAtTheEndAndUnknownKeysAreNot(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	key := newKey(t, pool)
	id := key.id
	c := newClock(time.Now().Truncate(time.Microsecond))
	meter := newMeter(pool, c)
	stop := testkit.Run(t, meter.Run)
	for range 100 {
		meter.Count(id, true)
	}
	stranger := uuid.New()
	meter.Count(stranger, true)
	used := c.now()
	c.set(used.Add(time.Second))
	meter.Count(id, false) // refused: no use
	stop()
	if at := lastUse(t, pool, id); at == nil || !at.Equal(used) {
		t.Errorf("last used at %v, want %v", at, used)
	}
	check.Equal(t, usageOf(t, pool, id), [2]int64{100, 1}, "usage")
	check.Equal(t, usageOf(t, pool, stranger), [2]int64{}, "usage of no key =")
}

// TestCountsAreExact counts from many goroutines on two pods, whose flushes and roll-ups overlap with it, with each other,
// and with an outage of the database.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 8, 3000
	pool := testkit.Database(t)
	ids := make([]uuid.UUID, 20)
	for i := range ids {
		ids[i] = newKey(t, pool).id
	}
	c := newClock(time.Now())
	pods := []*usage.Meter{newMeter(pool, c), newMeter(pool, c)}
	var counting, flushing sync.WaitGroup
	away, counted := make(chan struct{}), make(chan struct{})
	var failed atomic.Int64
	for _, pod := range pods {
		flushing.Go(func() {
			for {
				if errors.Join(pod.Flush(context.Background()), pod.RollUp(context.Background())) != nil {
					failed.Add(1)
				}
				select {
				case <-counted:
					return
				default:
				}
			}
		})
		for g := range goroutines {
			counting.Go(func() {
				for i := range rounds {
					if i == rounds/2 {
						<-away // else all may be written before
					}
					pod.Count(ids[(g+i)%len(ids)], i%3 != 0)
				}
			})
		}
	}
	restore := testkit.CutOff(t, pool)
	close(away)
	testkit.Eventually(t, "a flush fails", func() bool { return failed.Load() > 0 })
	restore()
	counting.Wait()
	close(counted)
	flushing.Wait()
	for _, pod := range pods {
		flush(t, pod)
	}
	var sum [2]int64
	for _, id := range ids {
		got := usageOf(t, pool, id)
		sum[0], sum[1] = sum[0]+got[0], sum[1]+got[1]
	}
	if limited := int64(2 * goroutines * rounds / 3); sum != [2]int64{2 * limited, limited} {
		t.Errorf("usage = %v, want %v", sum, [2]int64{2 * limited, limited})
	}
}

// TestACommitWhoseAnswerIsLostIsCountedOnce has the database commit what a meter does on a connection that breaks before the
// answer.
func TestACommitWhoseAnswerIsLostIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]struct {
		before, lost func(*usage.Meter, context.Context) error
		statement    string // whose answer it is
		waiting      int    // batches, once the database has committed
	}{
		"a flush":   {func(*usage.Meter, context.Context) error { return nil }, (*usage.Meter).Flush, "AddUsageBatch", 1},
		"a roll-up": {(*usage.Meter).Flush, (*usage.Meter).RollUp, "commit", 0},
	} {
		t.Run(name, func(t *testing.T) {
			direct := testkit.Database(t)
			id := newKey(t, direct).id
			line := newLine(t, direct.Config().ConnString()+"&pool_max_conns=1")
			pool := testkit.Open(t, line.URL)
			meter := newMeter(pool, newClock(time.Now()))
			meter.Count(id, true)
			flush(t, meter)

			meter.Count(id, true)
			meter.Count(id, false)
			check.NoError(t, step.before(meter, t.Context()))
			line.loseAnswer(step.statement)
			failed := make(chan error, 1)
			go func() { failed <- step.lost(meter, context.WithoutCancel(t.Context())) }()
			testkit.Eventually(t, "the answer is lost", line.Lost)
			testkit.Eventually(t, "the database has committed", func() bool {
				return testkit.Get[int](t, direct, "SELECT count(*) FROM key_usage_batches") == step.waiting
			})
			line.Cut(false)
			if err := testkit.Receive(t, failed, "the call fails"); err == nil {
				t.Fatal("it has its answer: the test proves nothing")
			}
			meter.Count(id, true)
			for range 2 { // the second has nothing to do
				flush(t, meter)
				check.Equal(t, usageOf(t, direct, id), [2]int64{3, 1}, "usage")
			}
		})
	}
}

func TestRunAddsBatchesOnceTheOldestIsOldEnough(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := newKey(t, pool).id
	registry := prometheus.NewRegistry()
	cfg := patient(registry)
	cfg.RollUpAge = time.Hour
	meter := usage.NewMeter(pool, cfg)
	meter.Count(id, true)
	write(t, meter)
	age := func() {
		testkit.Exec(t, pool, "UPDATE key_usage_batches SET written_at = written_at - interval '40 minutes'")
	}
	age()
	stop := testkit.Run(t, meter.Run)
	const oldest = "examprep_key_usage_oldest_batch_age_seconds"
	testkit.Eventually(t, "the meter looks", func() bool { return testkit.Metric(t, registry, oldest, nil) >= 40*60 })
	check.Equal(t, usageOf(t, pool, id), [2]int64{}, "usage after 40 minutes =")
	age()
	testkit.Eventually(t, "the batch is added", func() bool { return usageOf(t, pool, id) == [2]int64{1, 0} })
	stop()
}

func TestADayIsUTCsAndEndsAtMidnight(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	key := newKey(t, pool)
	id := key.id
	east := time.FixedZone("east", 9*60*60)
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := newClock(midnight.Add(-time.Microsecond))
	meter := newMeter(pool, c)
	meter.Count(id, true)
	meter.Count(id, false)
	c.set(midnight.In(east))
	for range 3 {
		meter.Count(id, true)
	}
	c.set(midnight.Add(24*time.Hour - time.Nanosecond))
	meter.Count(id, true)
	flush(t, meter)
	c.set(midnight.Add(24 * time.Hour))
	meter.Count(id, true)
	flush(t, meter)

	store := usage.NewStore(pool)
	day := func(offset int) time.Time { return midnight.AddDate(0, 0, offset) }
	want := []usage.Daily{
		{Day: day(-1), KeyPrefix: key.prefix, Requests: 1, RateLimited: 1},
		{Day: day(0), KeyPrefix: key.prefix, Requests: 4},
		{Day: day(1), KeyPrefix: key.prefix, Requests: 1},
	}
	for _, prefix := range []string{"", key.prefix} {
		got, err := store.Daily(t.Context(), usage.Query{Account: key.account, From: day(-1), To: day(1), KeyPrefix: prefix})
		if err != nil || !sameUsage(got, want) {
			t.Errorf("%q: usage = %v, %v, want %v", prefix, got, err, want)
		}
		got, err = store.Daily(t.Context(), usage.Query{Account: key.account, From: day(0), To: day(0), KeyPrefix: prefix})
		if err != nil || !sameUsage(got, want[1:2]) {
			t.Errorf("%q: usage of one day = %v, %v, want %v", prefix, got, err, want[1:2])
		}
	}
}

func sameUsage(got, want []usage.Daily) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !got[i].Day.Equal(want[i].Day) {
			return false
		}
		got[i].Day = want[i].Day
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

func TestAFloodOfKeysIsWrittenEarlyAndBounded(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	registry := prometheus.NewRegistry()
	meter := usage.NewMeter(pool, patient(registry))
	const shard, more = 4096, 10
	for range shard + more {
		id := uuid.New()
		id[15] = 7 // of one shard
		meter.Count(id, true)
	}
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_lost_total", nil), more, "requests lost")
	stop := testkit.Run(t, meter.Run)
	testkit.Eventually(t, "what is half full is written before the interval is over", func() bool {
		written := testkit.Get[bool](t, pool, "SELECT EXISTS (SELECT FROM key_usage_writers WHERE batch > 0)")
		return written
	})
	stop()
}

func TestAFlushCanBeAskedFor(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := newKey(t, pool).id
	meter := newMeter(pool, newClock(time.Now()))
	stop := testkit.Run(t, meter.Run)
	meter.Count(id, true)
	meter.RequestFlush()
	testkit.Eventually(t, "it is written before the interval is over", func() bool {
		return usageOf(t, pool, id) == [2]int64{1, 0}
	})
	stop()
}

// flushLast begins a meter's last flush, whose time ends with end.
func flushLast(t *testing.T, meter *usage.Meter) (end context.CancelFunc, ended <-chan struct{}) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); meter.FlushLast(ctx) }()
	return end, done
}

func TestWhatCannotBeWrittenAtTheEndIsCountedAsLost(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := newKey(t, pool).id
	registry := prometheus.NewRegistry()
	meter := usage.NewMeter(pool, patient(registry))
	for range 3 {
		meter.Count(id, true)
	}
	for range 2 {
		meter.Count(id, false)
	}
	testkit.CutOff(t, pool)
	end, ended := flushLast(t, meter)
	testkit.Eventually(t, "the flush is tried again", func() bool {
		return testkit.Metric(t, registry, "examprep_key_usage_flush_failures_total", nil) >= 2
	})
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_lost_total", nil), 0, "requests lost before the time is up")
	end()
	testkit.Receive(t, ended, "the last flush ends")
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_lost_total", nil), 5, "requests lost")
}

func TestTheTimeOfTheLastFlushIsLimited(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	registry := prometheus.NewRegistry()
	cfg := patient(registry)
	cfg.LastFlushTime = time.Nanosecond
	meter := usage.NewMeter(pool, cfg)
	meter.Count(newKey(t, pool).id, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.NoError(t, meter.Run(ctx))
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_lost_total", nil), 1, "requests lost")
}

func TestWritersThatEndedLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := newKey(t, pool).id
	old, recent := uuid.New(), uuid.New()
	testkit.Exec(t, pool, `INSERT INTO key_usage_writers (id, batch, written_at)
		VALUES ($1, 9, now() - interval '31 days'), ($2, 9, now() - interval '29 days')`, old, recent)
	meter := newMeter(pool, newClock(time.Now()))
	meter.Count(id, true)
	flush(t, meter)
	var left int
	var kept bool
	check.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*), bool_or(id = $1) FROM key_usage_writers", recent).Scan(&left, &kept))
	if left != 2 || !kept {
		t.Errorf("%d writers left, the recent one among them: %v", left, kept)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	meter := usage.NewMeter(nil, usage.MeterConfig{Interval: time.Hour})
	key := uuid.New()
	meter.Count(key, true)
	check.Equal(t, testing.AllocsPerRun(100, func() { meter.Count(key, true); meter.Count(key, false) }), 0, "allocations")
}

// BenchmarkCount is what each request of a valid key pays: 16 goroutines a processor, on one key and on many.
func BenchmarkCount(b *testing.B) {
	for name, count := range map[string]int{"keys=1": 1, "keys=1000": 1000} {
		b.Run(name, func(b *testing.B) {
			meter := usage.NewMeter(nil, usage.MeterConfig{Interval: time.Hour})
			ids := make([]uuid.UUID, count)
			for i := range ids {
				ids[i] = uuid.New()
			}
			var next atomic.Int64
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				i := int(next.Add(7919))
				for p.Next() {
					i++
					meter.Count(ids[i%len(ids)], true)
				}
			})
		})
	}
}
