package attempts

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestSweepSkipsAttemptsThatCannotBeClosed: a trigger refuses some rows, wherever they are in the order of the sweep.
func TestSweepSkipsAttemptsThatCannotBeClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused []int // by their place
		attempts,
		closed int
		state string // SQLSTATE
	}{
		"the only one":           {[]int{0}, 1, 0, "P0001"},
		"the first":              {[]int{0}, 7, 6, "XX001"},
		"the last":               {[]int{6}, 7, 6, "P0001"},
		"two":                    {[]int{2, 5}, 7, 5, "P0001"},
		"all":                    {[]int{0, 1, 2}, 3, 0, "P0001"},
		"two beyond one batch":   {[]int{0, sweepBatch}, sweepBatch + 2, sweepBatch, "P0001"},
		"none in a second batch": {[]int{3}, sweepBatch + 1, sweepBatch, "P0001"},
		"lock_timeout":           {[]int{1}, 3, 2, "55P03"},
		"statement_timeout":      {[]int{1}, 3, 2, "57014"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var log bytes.Buffer
			b.Sweeper = NewSweeper(b.pool, slog.New(slog.NewTextHandler(&log, nil)), nil)
			b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
			who := b.someone(t)
			b.open(t, who, "")
			testkit.Exec(t, b.pool, `INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, key_seq,
				question_count, opened_at, expires_at) SELECT gen_random_uuid(), account_id, family_id, key_id, exam_key, paper_id,
				paper_digest, key_seq + n, question_count, opened_at, expires_at + n * interval '1 microsecond'
				FROM attempts, generate_series(1, $1) n`, c.attempts-1)
			ids := testkit.List[uuid.UUID](t, b.pool, "SELECT id FROM attempts ORDER BY key_seq")
			testkit.Exec(t, b.pool, "CREATE TABLE poison (id uuid)")
			for _, at := range c.refused {
				testkit.Exec(t, b.pool, "INSERT INTO poison VALUES ($1)", ids[at])
			}
			testkit.Exec(t, b.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF EXISTS (SELECT FROM poison p WHERE p.id = NEW.id) THEN RAISE 'poisoned' USING ERRCODE = '`+c.state+`'; END IF;
					RETURN NEW;
				END $$`)
			testkit.Exec(t, b.pool, "CREATE TRIGGER refuse BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION refuse()")
			b.advance(minutes*time.Minute + lateWindow + time.Second)
			for sweep := range 2 { // the second one finds the skipped attempts only
				closed, err := b.Sweep(t.Context())
				check.NoError(t, err)
				if want := []int{c.closed, 0}[sweep]; closed != want {
					t.Errorf("sweep %d closed %d, want %d", sweep, closed, want)
				}
				if skipped := testutil.ToFloat64(b.metrics.skipped); int(skipped) != len(c.refused)*(sweep+1) {
					t.Errorf("%v were skipped, want %d", skipped, len(c.refused)*(sweep+1))
				}
				for _, at := range c.refused {
					if n := strings.Count(log.String(), ids[at].String()); n != sweep+1 {
						t.Errorf("the log has an attempt %d times, want %d: %s", n, sweep+1, log.String())
					}
				}
			}
			open := testkit.List[uuid.UUID](t, b.pool, "SELECT id FROM attempts WHERE state = 'in_progress' ORDER BY key_seq")
			if len(open) != len(c.refused) {
				t.Errorf("%d attempts are open, want those that were refused", len(open))
			}
			testkit.Exec(t, b.pool, "DELETE FROM poison")
			if closed, err := b.Sweep(t.Context()); closed != len(c.refused) || err != nil {
				t.Errorf("once they can be closed, the sweep closed %d, %v, want %d", closed, err, len(c.refused))
			}
		})
	}
}

// TestSweepStopsDuringAnOutage: an unreachable server is not a bad row.
func TestSweepStopsDuringAnOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	b.open(t, b.someone(t), "")
	b.advance(minutes*time.Minute + lateWindow + time.Second)
	restore := testkit.CutOff(t, b.pool)
	defer restore()
	closed, err := b.Sweep(t.Context())
	if skipped := testutil.ToFloat64(b.metrics.skipped); closed != 0 || err == nil || skipped != 0 {
		t.Errorf("closed %d, skipped %v, %v; want an error", closed, skipped, err)
	}
}
