package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestWhatIsPublishedIsServedAndNotWrittenTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		exam := catalogtest.AnyExam(fmt.Sprintf("exam-%d", n)).Draw(rt, "exam")
		published, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if published.Revision != 1 || !published.Changed || len(published.PaperDigests) != len(exam.Papers) {
			rt.Fatalf("published %+v", published)
		}
		written := rowVersions(t, b)
		before := b.statements.Load()
		again, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if sent := b.statements.Load() - before; sent != 1 {
			rt.Fatalf("publishing the same again sent %d statements", sent)
		}
		published.Changed = false
		if !reflect.DeepEqual(again, published) {
			rt.Fatalf("again = %+v, want %+v", again, published)
		}
		if !slices.Equal(rowVersions(t, b), written) {
			rt.Fatal("publishing the same again wrote")
		}
		if changes, err := b.publisher.Diff(t.Context(), catalogtest.Valid(t, exam)); err != nil || len(changes) > 0 {
			rt.Fatalf("diff of what is published: %v, %v", changes, err)
		}
		catalogtest.CheckServed(t.Context(), rt, b.snapshot(t, read.SnapshotConfig{}), exam, published)
		checkStored(t, rt, b, exam)
	})
}

// rowVersions lists the transaction that wrote each row of the catalogue and the outbox.
func rowVersions(t *testing.T, b *bench) []string {
	t.Helper()
	return testkit.List[string](t, b.pool, `
		SELECT 'e' || xmin || ctid FROM exams UNION ALL SELECT 'r' || xmin || ctid FROM exam_revisions
		UNION ALL SELECT 'p' || xmin || ctid FROM paper_revisions UNION ALL SELECT 'k' || xmin || ctid FROM paper_answer_keys
		UNION ALL SELECT 'x' || xmin || ctid FROM exam_revision_papers UNION ALL SELECT 'w' || xmin || ctid FROM webhook_events
		ORDER BY 1`)
}

// checkStored loads the papers back with their answers: storage loses no part of a sealed paper.
func checkStored(t *testing.T, rt *rapid.T, b *bench, exam catalog.Exam) {
	t.Helper()
	empty := catalog.Exam{Key: exam.Key, Name: "x"}
	changes, err := b.publisher.Diff(t.Context(), catalogtest.Valid(t, empty))
	if err != nil {
		rt.Fatal(err)
	}
	removed := 0
	for _, change := range changes {
		if change.Kind == catalog.Removed && change.PaperID != "" {
			removed++
		}
	}
	if removed != len(exam.Papers) {
		rt.Fatalf("%d papers are told as removed, want %d", removed, len(exam.Papers))
	}
	for i := range exam.Papers {
		want, err := exam.Papers[i].SealDigest()
		if err != nil {
			rt.Fatal(err)
		}
		stored, storedSeal, err := b.publisher.StoredPaper(t.Context(), t, exam.Key, exam.Papers[i].ID)
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := stored.SealDigest(); err != nil || got != want || storedSeal != want {
			rt.Fatalf("paper read back differs: %v, %v\n%v", got, err, catalog.ComparePapers(&exam.Papers[i], stored))
		}
	}
}

func TestAChangeMakesANewRevisionAndTellsWhatChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.subscribe(t)
	first := catalogtest.SampleExam()
	first.Papers = append(first.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	b.publish(t, first)
	second := catalogtest.Clone(first)
	second.Papers[0].Questions[0].Answer.Choices = []string{"C"}
	second.Resources.OfficialSites = nil
	published := b.publish(t, second)
	if published.Revision != 2 || !published.Changed || !slices.Equal(published.Unsealed, []string{"xx-sample-2023", "xx-sample-2024"}) {
		t.Errorf("published %+v", published)
	}
	third := catalogtest.Clone(second)
	third.Papers = append(third.Papers[1:], catalogtest.SamplePaper("xx-sample-2025"))
	b.publish(t, third)

	events := b.events(t)
	type told struct {
		changes, papers []string
		version         int64
	}
	want := []told{
		{[]string{"overview", "resources", "study_path", "papers"}, []string{"xx-sample-2023", "xx-sample-2024"}, 1},
		{[]string{"resources", "papers"}, []string{"xx-sample-2023"}, 2},
		{[]string{"papers"}, []string{"xx-sample-2023", "xx-sample-2025"}, 3},
	}
	var got []told
	for _, event := range events {
		if event.ExamKey != first.Key || event.UpdatedAt.IsZero() {
			t.Errorf("event %+v", event)
		}
		got = append(got, told{event.Changes, event.PaperIDs, event.ContentVersion})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events tell %v, want %v", got, want)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_deliveries"); n != 3 {
		t.Errorf("%d deliveries, want 3", n)
	}
	// The paper that stayed the same is shared by all revisions.
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions"); n != 4 {
		t.Errorf("%d paper revisions, want 4", n)
	}
}

func TestAnExamOfNoPapersAndOfManyIsPublished(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	exam.Papers = nil
	b.publish(t, exam)
	for i := range 300 {
		exam.Papers = append(exam.Papers, catalogtest.SamplePaper(fmt.Sprintf("xx-sample-%03d", i)))
	}
	if published := b.publish(t, exam); published.Revision != 2 || len(published.PaperDigests) != 300 {
		t.Errorf("revision %d with %d papers", published.Revision, len(published.PaperDigests))
	}
	// What the papers take from the exam makes new revisions of them all, though no seal changes.
	exam.Scoring = []byte(`{"pass_mark": 2}`)
	b.publish(t, exam)
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions"); n != 600 {
		t.Errorf("%d paper revisions, want 600", n)
	}
	// A remark that has no meaning for scoring makes none.
	exam.Scoring = []byte(`{"pass_mark": 2, "remark": "x"}`)
	if published := b.publish(t, exam); !published.Changed || testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions") != 600 {
		t.Errorf("published %+v", published)
	}
}

func TestProductionPublishesOnlyWhatIsSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	exam := catalogtest.SampleExam()
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	_, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{})
	var refused *catalog.SealError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a SealError", err)
	}
	if refused.PaperID != "xx-sample-2023" || refused.Have != "" || !slices.Equal(refused.Others, []string{"xx-sample-2024"}) {
		t.Errorf("refused %+v", refused)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions"); n != 0 {
		t.Error("something was staged")
	}
	// The key belongs to its first declarer, sealed or not.
	var conflict *catalog.ClaimConflictError
	if _, err := b.publisher.Publish(t.Context(), catalog.Claim{Name: "other"}, catalogtest.Valid(t, catalogtest.Seal(t, exam)), catalog.Options{}); !errors.As(err, &conflict) || conflict.Owner != owner {
		t.Fatalf("got %v, want a ClaimConflictError", err)
	}

	sealed := catalogtest.Seal(t, exam)
	if published := b.publish(t, sealed); published.Revision != 1 || published.Unsealed != nil {
		t.Errorf("published %+v", published)
	}
	byAccident := catalogtest.Clone(sealed)
	byAccident.Papers[1].Questions[0].Answer.Choices = []string{"A"}
	_, err = b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, byAccident), catalog.Options{})
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a SealError", err)
	}
	want := []catalog.Change{{catalog.Changed, "xx-sample-2024", "1:1", "answer", "B", "A"}}
	if refused.PaperID != "xx-sample-2024" || !reflect.DeepEqual(refused.Changes, want) || refused.Have != sealed.Papers[1].Verification.Digest {
		t.Errorf("refused %+v, want the change %v", refused, want)
	}
	if still := testkit.Get[int64](t, b.pool, "SELECT revision FROM exams WHERE exam_key = $1", exam.Key); still != 1 {
		t.Errorf("revision %d is published; want 1", still)
	}
	onPurpose := catalogtest.Seal(t, byAccident)
	if published := b.publish(t, onPurpose); published.Revision != 2 {
		t.Errorf("published %+v", published)
	}
}

func TestSandboxTellsOfTheUnsealedAndKeepsTheirLaterSeal(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	if published := b.publish(t, exam); !slices.Equal(published.Unsealed, []string{"xx-sample-2023"}) {
		t.Errorf("unsealed = %v", published.Unsealed)
	}
	sealed := b.publish(t, catalogtest.Seal(t, exam))
	if sealed.Unsealed != nil || !sealed.Changed {
		t.Errorf("published %+v", sealed)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions"); n != 1 {
		t.Errorf("a seal made %d paper revisions", n)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exam_revision_papers WHERE sealed AND verification->>'by' = 'reviewer'"); n != 1 {
		t.Error("who sealed the paper is not on record")
	}
}

func TestAPinBringsBackAnEarlierRevision(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	first := b.publish(t, catalogtest.Seal(t, catalogtest.SampleExam()))
	changed := catalogtest.Clone(catalogtest.SampleExam())
	changed.Name = "Broken"
	changed.Papers[0].Questions[0].Prompt = "Broken"
	b.publish(t, changed)

	pin := func(revision int64) (catalog.Publication, error) {
		return b.publisher.RollBack(t.Context(), owner, changed.Key, revision, catalog.Options{})
	}
	restored, err := pin(1)
	check.NoError(t, err)
	want := first
	want.Revision, want.PublishedAt = 3, restored.PublishedAt
	if !reflect.DeepEqual(restored, want) {
		t.Errorf("restored %+v, want %+v", restored, want)
	}
	before := b.statements.Load()
	again, err := pin(1)
	if err != nil || again.Changed || again.Revision != 3 {
		t.Errorf("pinned again: %+v, %v", again, err)
	}
	if sent := b.statements.Load() - before; sent != 1 {
		t.Errorf("an unchanged pin sent %d statements", sent)
	}
	catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), catalogtest.SampleExam(), restored)
	var missing *catalog.RevisionNotFoundError
	if _, err := pin(17); !errors.As(err, &missing) {
		t.Errorf("got %v, want a RevisionNotFoundError", err)
	}
	if _, err := b.publisher.RollBack(t.Context(), owner, "unheard-of", 1, catalog.Options{}); !errors.As(err, &missing) {
		t.Errorf("got %v, want a RevisionNotFoundError", err)
	}
	if unpinned := b.publish(t, changed); unpinned.Revision != 4 {
		t.Errorf("unpinned: %+v", unpinned)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions"); n != 2 {
		t.Errorf("%d paper revisions, want 2: a pin copies none", n)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT restored_from FROM exam_revisions WHERE revision = 3"); n != 1 {
		t.Errorf("restored_from = %d", n)
	}
}

func TestPruningKeepsWhatIsYoungOrOpened(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.publisher.SetClock(func() time.Time { return clock })
	exam := catalogtest.Clone(catalogtest.SampleExam())
	publish := func(revision int) catalog.Digest {
		exam.Papers[0].Questions[0].Prompt = fmt.Sprintf("revision %d", revision)
		published, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{HistoryLimit: 2})
		check.NoError(t, err)
		return published.PaperDigests["xx-sample-2023"]
	}
	opened := publish(1)
	check.NoError(t, b.snapshot(t, read.SnapshotConfig{}).MarkOpened(t.Context(), exam.Key, opened))
	clock = clock.Add(2 * time.Hour)
	unopened := publish(2)
	clock = clock.Add(59 * time.Minute)
	publish(3)
	publish(4)
	revisions := func() []int64 {
		return testkit.List[int64](t, b.pool, "SELECT revision FROM exam_revisions ORDER BY 1")
	}
	// 1 was superseded 59 minutes ago, 2 and 3 just now: beyond the limit, but young.
	if got := revisions(); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("revisions %v are kept, want all", got)
	}
	clock = clock.Add(2 * time.Minute)
	publish(5)
	if got := revisions(); !slices.Equal(got, []int64{2, 3, 4, 5}) {
		t.Errorf("revisions %v are kept, want 2 to 5", got)
	}
	clock = clock.Add(time.Hour + time.Second)
	publish(6)
	if got := revisions(); !slices.Equal(got, []int64{5, 6}) {
		t.Errorf("revisions %v are kept, want 5 and 6", got)
	}
	s := b.snapshot(t, read.SnapshotConfig{})
	keys := catalogtest.AnswerKeys(t, s)
	if _, err := s.Revision(t.Context(), exam.Key, opened); err != nil {
		t.Errorf("the opened paper: %v", err)
	}
	if _, err := keys.Get(t.Context(), exam.Key, opened); err != nil {
		t.Errorf("the opened paper's key: %v", err)
	}
	var missing *catalog.NotFoundError
	if _, err := s.Revision(t.Context(), exam.Key, unopened); !errors.As(err, &missing) || missing.What != "revision" {
		t.Errorf("got %v, want the revision pruned", err)
	}
	if _, err := keys.Get(t.Context(), exam.Key, unopened); !errors.As(err, &missing) {
		t.Errorf("got %v, want the key pruned", err)
	}
}

func TestAKilledPublishLeavesTheOldRevisionWhole(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*testing.T, *bench, context.CancelFunc){
		"its context ends": func(_ *testing.T, _ *bench, cancel context.CancelFunc) { cancel() },
		"its backend dies": func(t *testing.T, b *bench, _ context.CancelFunc) {
			t.Helper()
			testkit.Exec(t, b.pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Sandbox)
			old := b.publish(t, catalogtest.SampleExam())
			next := catalogtest.Clone(catalogtest.SampleExam())
			next.Papers[0].Questions[0].Answer.Choices = []string{"C"}
			written := rowVersions(t, b)

			// A lock on the outbox holds the publish when its papers are staged and its pointer is about to flip.
			holder := testkit.Begin(t, b.pool, "LOCK TABLE webhook_events IN ACCESS EXCLUSIVE MODE")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := b.publisher.Publish(ctx, owner, catalogtest.Valid(t, next), catalog.Options{})
				failed <- err
			}()
			testkit.Eventually(t, "the publish to wait for the lock", func() bool {
				return testkit.Get[int](t, b.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
			})
			kill(t, b, cancel)
			if err := testkit.Receive(t, failed, "the killed publish ends"); err == nil {
				t.Fatal("the killed publish succeeded")
			}
			testkit.Release(t, holder)
			if !slices.Equal(rowVersions(t, b), written) {
				t.Error("the killed publish left something behind")
			}
			catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), catalogtest.SampleExam(), old)
			if published := b.publish(t, next); published.Revision != 2 || !published.Changed {
				t.Errorf("the next run published %+v", published)
			}
		})
	}
}

func TestEventsTellNothingOfTheKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	const marker = "MARKER-7f3a"
	for _, word := range []string{"first", "second"} {
		exam := catalogtest.Clone(catalogtest.SampleExam())
		exam.Papers[0].Questions[0].Explanation = marker + word
		exam.Papers[0].Questions[0].Topic = marker + word
		exam.Papers[0].Questions[3].Answer.Text = marker + word
		b.publish(t, exam)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_events"); n != 2 {
		t.Fatalf("%d events, want 2", n)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_events WHERE convert_from(body, 'UTF8') LIKE '%' || $1 || '%'", marker); n != 0 {
		t.Error("an event tells an answer")
	}
}
