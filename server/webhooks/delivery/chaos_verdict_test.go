package delivery

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit/check"
)

// chaosTables are what events tell of, and a log of every lease and every retry that is scheduled: at is the beginning of
// the statement that did it, due when the try was to begin, held until when somebody else had it.
const chaosTables = `
CREATE TABLE chaos_facts (event_id uuid PRIMARY KEY);
CREATE TABLE chaos_log (
    what text, delivery uuid, event uuid, endpoint uuid, attempt int, lost int, status int, at timestamptz, due timestamptz,
    held timestamptz);
CREATE FUNCTION chaos_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.attempt > OLD.attempt THEN
        INSERT INTO chaos_log VALUES ('lease', NEW.id, NEW.event_id, NEW.endpoint_id, NEW.attempt, NEW.lost_attempts, NULL, now(),
            OLD.next_attempt_at, OLD.lease_until);
    ELSE
        INSERT INTO chaos_log VALUES ('retry', NEW.id, NEW.event_id, NEW.endpoint_id, NEW.attempt, NEW.lost_attempts, NEW.last_status,
            now(), NEW.next_attempt_at, NULL);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER chaos_note AFTER UPDATE ON webhook_deliveries FOR EACH ROW
    WHEN (NEW.attempt > OLD.attempt
        OR NEW.attempt = OLD.attempt AND OLD.lease_id IS NOT NULL AND NEW.lease_id IS NULL AND NEW.state = 'pending')
    EXECUTE FUNCTION chaos_note();`

// judge says what did not hold, and what was counted.
func (s *stage) judge(ctx context.Context, t *testing.T) {
	t.Helper()
	truth := s.truth(ctx, t)
	s.judgeHistory(t, truth)
	deliveries, duplicates := s.judgeArrivals(t, truth)
	s.judgeRows(ctx, t)
	s.judgeEnds(ctx, t)
	s.judgeHaste(ctx, t)
	for _, wrong := range s.receiver.wrong {
		t.Error(wrong)
	}
	for _, odd := range s.chaos.workers.odd {
		t.Errorf("a worker ended with %s", odd)
	}
	for _, name := range sorted(s.chaos.injected) {
		t.Logf("%4d × %s", s.chaos.injected[name], name)
	}
	t.Logf("%d events, %d acknowledged deliveries, %d duplicates (%.3f %%), at most %d MiB in a worker, %s",
		len(truth), deliveries, duplicates, 100*float64(duplicates)/float64(deliveries), s.chaos.workers.peak>>10,
		time.Since(s.chaos.began).Round(time.Second))
	if len(truth) >= soakSize && 100*duplicates >= deliveries {
		t.Errorf("%d duplicates of %d deliveries", duplicates, deliveries)
	}
	if t.Failed() {
		s.chaos.workers.lastWords(t)
	}
}

// truth is which events were committed.
func (s *stage) truth(ctx context.Context, t *testing.T) map[uuid.UUID]struct{} {
	t.Helper()
	rows, err := s.pool.Query(ctx, "SELECT id FROM webhook_events")
	check.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	check.NoError(t, err)
	truth := make(map[uuid.UUID]struct{}, len(ids))
	for _, id := range ids {
		truth[id] = struct{}{}
	}
	return truth
}

// judgeHistory compares what callers were answered with what is on disk.
func (s *stage) judgeHistory(t *testing.T, truth map[uuid.UUID]struct{}) {
	t.Helper()
	for id, event := range s.history.byID {
		_, there := truth[id]
		if !there && !event.committed.IsZero() {
			t.Errorf("event %s was committed and is not there", id)
		}
		if there && event.undone {
			t.Errorf("event %s was rolled back and is there", id)
		}
	}
}

// judgeArrivals compares what arrived with what was committed.
func (s *stage) judgeArrivals(t *testing.T, truth map[uuid.UUID]struct{}) (deliveries, duplicates int) {
	t.Helper()
	for _, to := range s.receiver.targets {
		lost := 0
		for id := range truth {
			event, came := s.history.byID[id], to.arrived[id]
			if wanted(to, event) && (came == nil || came.acknowledged == 0) {
				if lost++; lost <= 3 {
					t.Errorf("endpoint %d never got event %s", to.index, id)
				}
			}
			if unwanted(to, event) && came != nil {
				t.Errorf("endpoint %d got event %s of the time when it was off", to.index, id)
			}
		}
		if lost > 0 {
			t.Errorf("endpoint %d never got %d events", to.index, lost)
		}
		for id, came := range to.arrived {
			if _, there := truth[id]; !there {
				t.Errorf("endpoint %d got event %s, which was rolled back", to.index, id)
			}
			if came.acknowledged > 0 {
				deliveries++
				duplicates += came.acknowledged - 1
			}
		}
	}
	return deliveries, duplicates
}

// judgeRows asks the database what must not be: its answers are counts, and all are 0.
func (s *stage) judgeRows(ctx context.Context, t *testing.T) {
	t.Helper()
	base := strconv.FormatFloat(chaosPace.RetryBase.Seconds(), 'f', -1, 64)
	// A try counts from its lease, and those that were lost with their workers do not count. A receiver that answers 503
	// asks for one second.
	const wait = `(SELECT r.delivery, extract(epoch FROM r.due - r.at) AS given, power(5, l.attempt - l.lost - 1) AS factor,
			CASE WHEN r.status = 503 THEN 1 ELSE 0 END AS asked
		FROM chaos_log r JOIN chaos_log l ON l.delivery = r.delivery AND l.attempt = r.attempt AND l.what = 'lease'
		WHERE r.what = 'retry') w`
	for what, query := range map[string]string{
		"events without what they tell of, or the other way round": `SELECT count(*) FROM webhook_events e
			FULL JOIN chaos_facts f ON f.event_id = e.id WHERE e.id IS NULL OR f.event_id IS NULL`,
		"tries that began before they were due, or while another worker had the delivery": `SELECT count(*) FROM chaos_log
			WHERE what = 'lease' AND (at < due OR held > at)`,
		"waits shorter than the backoff": "SELECT count(*) FROM " + wait +
			" WHERE given < greatest(0.8 * " + base + " * factor, asked) - 0.00001",
		"waits longer than the backoff": "SELECT count(*) FROM " + wait +
			" WHERE given > greatest(1.2 * " + base + " * factor, asked) + 0.00001",
		"deliveries with more than six tries of which anybody knows": `SELECT count(*) FROM (SELECT FROM webhook_attempts
			WHERE failure <> 'worker_lost' GROUP BY delivery_id HAVING count(*) > 6) d`,
		"deliveries that count more than six tries": `SELECT count(*) FROM webhook_deliveries WHERE attempt - lost_attempts > 6`,
		"deliveries without a record of the try that arrived": `SELECT count(*) FROM webhook_deliveries d
			WHERE state = 'delivered' AND NOT EXISTS (SELECT FROM webhook_attempts t
				WHERE t.delivery_id = d.id AND t.attempt = d.attempt AND t.failure = '')`,
		"deliveries that were given up": `SELECT count(*) FROM webhook_deliveries
			WHERE state = 'failed' AND last_status IS DISTINCT FROM 410`,
		"deliveries cancelled although their endpoint stayed": `SELECT count(*) FROM webhook_deliveries d
			JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.status = 'enabled' AND e.managed_by <> '` + s.owner(s.off) + `'
			WHERE d.state = 'cancelled'`,
	} {
		var count int
		if err := s.pool.QueryRow(ctx, query).Scan(&count); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if count > 0 {
			t.Errorf("%d %s", count, what)
		}
	}
}

// judgeEnds holds each endpoint against the moment at which its deletion or disabling had been answered, or was seen. The
// rule is exact: no try is leased by a statement that began after it. A request that began after it belongs to a try that
// was leased before (a lease makes one request at most), and there are none but those.
func (s *stage) judgeEnds(ctx context.Context, t *testing.T) {
	t.Helper()
	count := func(query string, args ...any) (n int) {
		t.Helper()
		check.NoError(t, s.pool.QueryRow(ctx, query, args...).Scan(&n))
		return n
	}
	for _, to := range s.receiver.targets {
		from, upTo := to.ended, time.Now().Add(time.Hour)
		if !to.off[0].IsZero() {
			from, upTo = to.off[0], to.off[1]
		}
		if from.IsZero() {
			continue
		}
		if n := count("SELECT count(*) FROM chaos_log WHERE what = 'lease' AND endpoint = $1 AND at > $2 AND at < $3", to.id, from, upTo); n > 0 {
			t.Errorf("%d tries for endpoint %d were leased after its end", n, to.index)
		}
		for _, id := range to.late {
			leased := count("SELECT count(*) FROM chaos_log WHERE what = 'lease' AND endpoint = $1 AND event = $2 AND at <= $3", to.id, id, from)
			if requests := to.arrived[id].requests; requests > leased {
				t.Errorf("endpoint %d got event %s %d times, leased %d times before its end", to.index, id, requests, leased)
			}
		}
		t.Logf("endpoint %d: %d requests were still on their way at its end", to.index, len(to.late))
	}
}

// judgeHaste looks at requests that came sooner after a failed one than any backoff. Where the worker gave the failed one
// up before it was answered, its wait began then.
func (s *stage) judgeHaste(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, to := range s.receiver.targets {
		for _, id := range to.early {
			var excused bool
			err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM webhook_attempts t JOIN webhook_deliveries d ON d.id = t.delivery_id
				WHERE d.event_id = $1 AND d.endpoint_id = $2 AND t.failure IN ('timeout', 'worker_lost'))`, id, to.id).Scan(&excused)
			check.NoError(t, err)
			if !excused {
				t.Errorf("event %s came to endpoint %d again too soon", id, to.index)
			}
		}
	}
}
