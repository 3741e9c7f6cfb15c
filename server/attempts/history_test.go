package attempts

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks/delivery"
)

func TestTheSweepClosesInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	old := b.open(t, who, "")
	// The others by one statement: what the sweep finds, not how they were opened, is the point.
	testkit.Exec(t, b.pool, `INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id,
		paper_digest, key_seq, question_count, opened_at, expires_at)
		SELECT gen_random_uuid(), account_id, family_id, key_id, exam_key, paper_id, paper_digest, key_seq + n, question_count,
		opened_at, expires_at FROM attempts, generate_series(1, $1) n`, 2*sweepBatch)
	b.advance(minutes*time.Minute + lateWindow)
	if closed, err := b.Sweep(t.Context()); closed != 0 || err != nil {
		t.Fatalf("a moment too early the sweep closed %d, %v", closed, err)
	}
	b.advance(time.Second)
	b.observeBacklog(t.Context())
	if behind := testutil.ToFloat64(b.metrics.overdue); int(behind) != 1 {
		t.Errorf("the sweep is told to be %v s behind, want 1 and no more", behind)
	}
	read := func() Summary {
		history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 1})
		if err != nil || len(history.Attempts) != 1 {
			t.Fatalf("history %+v, %v", history, err)
		}
		return history.Attempts[0]
	}
	before := read()
	var total atomic.Int64
	var workers errgroup.Group
	for range 3 {
		workers.Go(func() error {
			closed, err := b.Sweep(t.Context())
			total.Add(int64(closed))
			return err
		})
	}
	if err := workers.Wait(); err != nil || total.Load() != 2*sweepBatch+1 {
		t.Fatalf("three sweeps closed %d, %v", total.Load(), err)
	}
	if after := read(); before.State != StateExpired || toJSON(t, before) != toJSON(t, after) {
		t.Errorf("history before the sweep %+v, after %+v", before, after)
	}
	_, err := b.Submit(t.Context(), who, submission1(old, ""))
	wantCode(t, err, CodeAttemptClosed)
}

// TestTheSweepReadsNoMoreThanItCloses: on a worker's connections, where plans are made without a look at the tables.
func TestTheSweepReadsNoMoreThanItCloses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	b.open(t, b.someone(t), "")
	const batch = 10
	testkit.Exec(t, b.pool, `INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id,
		paper_digest, key_seq, question_count, opened_at, expires_at)
		SELECT gen_random_uuid(), account_id, family_id, key_id, exam_key, paper_id, paper_digest, key_seq + n, question_count,
		opened_at, expires_at FROM attempts, generate_series(1, $1) n`, 500*batch)
	testkit.Exec(t, b.pool, "ANALYZE attempts")
	b.advance(365 * 24 * time.Hour)
	pool := testkit.Open(t, b.pool.Config().ConnString(), delivery.SessionSettings(), onTestTime())
	tx := testkit.Begin(t, pool)
	before := testkit.RowsRead(t, tx, "attempts")
	overdue, err := attemptsdb.New(tx).OverdueAttempts(t.Context(), attemptsdb.OverdueAttemptsParams{Skipped: []uuid.UUID{}, Batch: batch})
	check.NoError(t, err)
	closed, err := attemptsdb.New(tx).ExpireAttempts(t.Context(), overdue)
	if read := testkit.RowsRead(t, tx, "attempts") - before; err != nil || closed != batch || read > 10*batch {
		t.Errorf("closed %d and %v, reading %d rows; want %d, reading at most %d", closed, err, read, batch, 10*batch)
	}
}

func TestHistoryPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	var all, anns []string // newest first
	for i := range 23 {
		learner := []string{"ann", "bob", ""}[i%3]
		opened := b.open(t, who, learner)
		all = append([]string{opened.AttemptID}, all...)
		if learner == "ann" {
			anns = append([]string{opened.AttemptID}, anns...)
		}
	}
	for _, c := range []struct {
		learner       string
		limit, offset int
		want          []string
		total         int64
	}{
		{"", 10, 0, all[:10], 23},
		{"", 10, 20, all[20:], 23},
		{"", 10, 23, nil, 23},
		{"", 50, 1 << 62, nil, 23},
		{"ann", 3, 0, anns[:3], 8},
		{"ann", 50, 7, anns[7:], 8},
		{"carol", 10, 0, nil, 0},
	} {
		history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, LearnerID: c.learner, Limit: c.limit, Offset: c.offset})
		check.NoError(t, err)
		var got []string
		for _, attempt := range history.Attempts {
			got = append(got, attempt.AttemptID)
		}
		if !slices.Equal(got, c.want) || history.Total != c.total {
			t.Errorf("learner %q, limit %d, offset %d: got %d of %d, want %d of %d", c.learner, c.limit, c.offset, len(got), history.Total, len(c.want), c.total)
		}
	}
}

func TestHistoryOfAWithdrawnExam(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	b.open(t, who, "ann")
	b.shelf.withdraw(testExam, "")
	for learner, want := range map[string]int64{"": 1, "ann": 1, "bob": 0} {
		history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10, LearnerID: learner})
		if err != nil || history.Total != want {
			t.Errorf("learner %q: total %d, %v; want %d", learner, history.Total, err, want)
		}
	}
	_, err := b.History(t.Context(), b.someone(t), HistoryRequest{ExamKey: testExam, Limit: 10})
	wantCode(t, err, CodeExamNotFound)
}

func TestALearnerIsTheSameHoweverAnAccentIsTyped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	opened := b.open(t, who, "Ren\u00e9e")
	_, err := b.Submit(t.Context(), who, submission1(opened, "Rene\u0301e"))
	check.NoError(t, err)
	history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10, LearnerID: "Rene\u0301e"})
	if err != nil || history.Total != 1 {
		t.Errorf("total %d, %v", history.Total, err)
	}
}

func TestALearnerReferenceReachesNoTable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	const reference = "learner-4711@school.example"
	if _, err := b.Submit(t.Context(), who, submission1(b.open(t, who, reference), reference)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"attempts", "attempt_counters", "webhook_events", "webhook_deliveries"} {
		var found int
		// Rows as text show bytea in hex, so the reference is looked for in both forms.
		query := "SELECT count(*) FROM " + table + ` r WHERE r::text LIKE '%' || $1 || '%'
			OR r::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'`
		if err := b.pool.QueryRow(t.Context(), query, reference).Scan(&found); err != nil || found != 0 {
			t.Errorf("%s: %d rows, %v", table, found, err)
		}
	}
}

func TestAShortNamespaceSecretIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewService(Config{NamespaceSecret: make([]byte, 31)}, nil, newShelf(), nil); err == nil {
		t.Error("accepted")
	}
}

// TestALearnersNameNeedsTheNamespaceSecret: who has the database but not the secret can neither make a learner's name
// nor compare two; and each key family gives a learner another one.
func TestALearnersNameNeedsTheNamespaceSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	const reference = "learner-4711"
	stored := map[string]bool{}
	var who keys.Identity
	for range 3 {
		who = b.someone(t)
		b.open(t, who, reference)
		name := testkit.Get[[]byte](t, b.pool, "SELECT learner FROM attempts WHERE family_id = $1", who.FamilyID)
		mac := hmac.New(sha256.New, []byte("a secret of thirty-two characters"))
		mac.Write(append(who.FamilyID[:], reference...))
		if !hmac.Equal(name, mac.Sum(nil)) {
			t.Errorf("the name is %x, not the HMAC of family and reference", name)
		}
		stored[string(name)] = true
	}
	if len(stored) != 3 {
		t.Error("two key families share a learner's name")
	}
	stranger, err := NewService(Config{NamespaceSecret: []byte("another one of thirty-two letters"), Now: b.now}, b.pool, b.shelf, b)
	check.NoError(t, err)
	for service, want := range map[*Service]int64{b.Service: 1, stranger: 0} {
		if history, err := service.History(t.Context(), who, HistoryRequest{ExamKey: testExam, LearnerID: reference, Limit: 10}); err != nil || history.Total != want {
			t.Errorf("found %d attempts, %v, want %d", history.Total, err, want)
		}
	}
}
