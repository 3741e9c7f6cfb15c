package read_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

func TestDocumentsHaveTheShapesOfTheSpecification(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	older := catalogtest.SamplePaper("xx-sample-1999")
	older.Year, older.Title, older.Subject = 1999, "", ""
	exam.Papers = append(exam.Papers, older, catalogtest.SamplePaper("xx-sample-2022-b"))
	b.publish(t, exam)
	b.publish(t, catalog.Exam{Key: "aa-bare", Name: "Another"})
	s := b.snapshot(t, read.SnapshotConfig{})
	document := func(d read.Document, err error) string {
		if err != nil || !strings.HasPrefix(d.ETag, `"`) || !strings.HasSuffix(d.ETag, `"`) || len(d.ETag) != 34 {
			t.Errorf("document %+v", d)
		}
		return string(d.JSON)
	}
	for want, got := range map[string]string{
		`{"exam_key":"xx-sample","name":"Sample exam","category":"samples","country":"Spain","duration_min":90,"sections":[{"name":"All","duration_min":90,"questions":6,"question_types":["single_choice"]}],"scoring":{"pass_mark":3,"note":"<as printed>"}}`:                                                                                                                      document(s.Overview(exam.Key)),
		`{"exam_key":"xx-sample","official_sites":[{"title":"Board","url":"https://example.org/"}],"past_questions_sources":[]}`:                                                                                                                                                                                                                                                     document(s.Resources(exam.Key)),
		`{"exam_key":"xx-sample","study_weeks":2,"study_hours_total":7.5,"study_path":[{"week":1,"title":"Begin"}]}`:                                                                                                                                                                                                                                                                 document(s.StudyPath(exam.Key)),
		`{"exam_key":"xx-sample","total_papers":3,"years":[{"year":2023,"papers":[{"paper_id":"xx-sample-2022-b","title":"Sample 2023","subject":"all","year":2023,"question_count":6},{"paper_id":"xx-sample-2023","title":"Sample 2023","subject":"all","year":2023,"question_count":6}]},{"year":1999,"papers":[{"paper_id":"xx-sample-1999","year":1999,"question_count":6}]}]}`: document(s.Papers(exam.Key)),
		`{"exam_key":"aa-bare","name":"Another"}`:                                document(s.Overview("aa-bare")),
		`{"exam_key":"aa-bare","official_sites":[],"past_questions_sources":[]}`: document(s.Resources("aa-bare")),
		`{"exam_key":"aa-bare","study_path":[]}`:                                 document(s.StudyPath("aa-bare")),
		`{"exam_key":"aa-bare","total_papers":0,"years":[]}`:                     document(s.Papers("aa-bare")),
	} {
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	paper, err := s.Paper(t.Context(), exam.Key, "xx-sample-2023")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{
		0: `{"answer_id":"1:1","section":1,"question_number":1,"prompt":"1 + 1 < 3?","question_text":"1 + 1 < 3?","options":{"A":"one","B":"two","C":"three"},"page":2,"has_visual":false}`,
		2: `{"answer_id":"2:1","section":2,"question_number":1,"prompt":"π?","question_text":"π?","has_visual":false}`,
	} {
		if got := string(paper.Questions[i]); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	var names []string
	for _, entry := range s.List() {
		names = append(names, entry.Name)
	}
	if !slices.Equal(names, []string{"Another", "Sample exam"}) || s.List()[1].CountryCode != "ES" || s.List()[1].Country != "Spain" {
		t.Errorf("list %+v", s.List())
	}
	if got, want := string(s.List()[1].JSON), `{"exam_key":"xx-sample","name":"Sample exam","category":"samples","country":"Spain","duration_min":90}`; got != want {
		t.Errorf("summary %s, want %s", got, want)
	}
	for what, name := range map[string][2]string{"exam": {"unheard-of", "x"}, "paper": {exam.Key, "unheard-of"}} {
		var missing *catalog.NotFoundError
		if _, err := s.Paper(t.Context(), name[0], name[1]); !errors.As(err, &missing) || missing.What != what {
			t.Errorf("got %v, want no such %s", err, what)
		}
	}
}

// The proof that a request cannot see an answer: whatever the answers, explanations and topics are, what requests are
// rendered from is the same, byte for byte.
func TestNothingOfTheKeyReachesAPaper(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		exam := catalog.Exam{Key: fmt.Sprintf("secret-%d", n), Name: "Secret", Papers: []catalog.Paper{catalogtest.AnyPaper("xx-paper").Draw(rt, "paper")}}
		other := catalogtest.Clone(exam)
		const marker = "MARKER-7f3a"
		for i := range other.Papers[0].Questions {
			q := &other.Papers[0].Questions[i]
			q.Explanation, q.Topic, q.SectionName = marker, marker, marker
			switch q.Answer.Kind {
			case catalog.AnswerNumeric:
				q.Answer = catalog.Answer{Kind: catalog.AnswerNumeric, Number: 73.25, Tolerance: 0.125}
			case catalog.AnswerText:
				q.Answer.Text = marker
			default:
				q.Answer = catalog.Answer{Kind: rapid.SampledFrom([]catalog.AnswerKind{catalog.AnswerAnnulled, catalog.AnswerUnmarkable}).Draw(rt, "kind")}
				if q.Options != nil {
					q.Answer = catalog.Answer{Kind: catalog.AnswerChoices, Choices: slices.Sorted(maps.Keys(q.Options))}
				}
			}
		}
		var served [2]*read.PaperRevision
		for i, version := range []catalog.Exam{exam, other} {
			if _, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, version), catalog.Options{}); err != nil {
				rt.Fatal(err)
			}
			paper, err := b.snapshot(t, read.SnapshotConfig{}).Paper(t.Context(), exam.Key, "xx-paper")
			if err != nil {
				rt.Fatal(err)
			}
			served[i] = paper
		}
		if !slices.EqualFunc(served[0].Questions, served[1].Questions, bytes.Equal) {
			rt.Fatalf("questions tell of their answers:\n%s\n%s", served[0].Questions, served[1].Questions)
		}
		if shown := fmt.Sprintf("%s %+v", bytes.Join(served[1].Questions, nil), served[1].PaperID); strings.Contains(shown, marker) {
			rt.Fatalf("the key is in %s", shown)
		}
	})
}

func TestANewRevisionIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	s := b.snapshot(t, read.SnapshotConfig{}) // it polls once an hour: the listener brings all that arrives
	testkit.Run(t, s.Run)
	testkit.Eventually(t, "the listener", func() bool { return listeners(t, b) == 1 })
	exam := catalogtest.Clone(catalogtest.SampleExam())
	for revision := range 3 {
		exam.Name = fmt.Sprintf("Revision %d", revision)
		b.publish(t, exam)
		testkit.Eventually(t, exam.Name, func() bool { return strings.Contains(nameOf(s, exam.Key), exam.Name) })
	}
	if err := b.publisher.Release(t.Context(), owner, exam.Key, true); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the withdrawal", func() bool { return nameOf(s, exam.Key) == "" })
}

func nameOf(s *read.Snapshot, examKey string) string {
	document, _ := s.Overview(examKey)
	return string(document.JSON)
}

func listeners(t *testing.T, b *bench) int {
	t.Helper()
	return testkit.Get[int](t, b.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND state = 'idle' AND query LIKE 'LISTEN%'", read.ListenerName)
}

func TestTheListenerComesBackAndCatchesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	s := b.snapshot(t, read.SnapshotConfig{})
	testkit.Run(t, s.Run)
	for round := range 3 {
		testkit.Eventually(t, "the listener", func() bool { return listeners(t, b) == 1 })
		testkit.Exec(t, b.pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", read.ListenerName)
		exam := catalogtest.SampleExam()
		exam.Name = fmt.Sprintf("Round %d", round)
		b.publish(t, exam) // perhaps while no listener is connected
		testkit.Eventually(t, exam.Name, func() bool { return strings.Contains(nameOf(s, exam.Key), exam.Name) })
	}
}

func TestThePollFindsWhatWasNotHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	s := b.snapshot(t, read.SnapshotConfig{PollInterval: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Poll(ctx); close(done) }() // without the listener
	defer func() { cancel(); <-done }()
	b.publish(t, catalogtest.SampleExam())
	testkit.Eventually(t, "the exam", func() bool { return nameOf(s, "xx-sample") != "" })
	testkit.Exec(t, b.pool, "UPDATE exams SET withdrawn = true")
	testkit.Eventually(t, "the withdrawal", func() bool { return nameOf(s, "xx-sample") == "" })
	testkit.Exec(t, b.pool, "DELETE FROM exam_revision_papers; DELETE FROM exam_revisions; DELETE FROM paper_revisions; DELETE FROM exams")
	testkit.Eventually(t, "the exam to be forgotten", func() bool { return s.KnownExams() == 0 })
}

func TestServesWhatItHasWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	published := b.publish(t, exam)
	s := b.snapshot(t, read.SnapshotConfig{PollInterval: 20 * time.Millisecond})
	testkit.Run(t, s.Run)
	cached, err := s.Paper(t.Context(), exam.Key, "xx-sample-2023")
	if err != nil {
		t.Fatal(err)
	}
	keys := catalogtest.AnswerKeys(t, s)
	if _, err := keys.Get(t.Context(), exam.Key, cached.Digest); err != nil {
		t.Fatal(err)
	}

	restore := testkit.CutOff(t, b.pool)
	if again, err := s.Paper(t.Context(), exam.Key, "xx-sample-2023"); err != nil || again != cached {
		t.Errorf("the cached paper: %v", err)
	}
	if _, err := keys.Get(t.Context(), exam.Key, cached.Digest); err != nil {
		t.Errorf("the cached key: %v", err)
	}
	if _, err := s.Overview(exam.Key); err != nil || !s.Ready() || len(s.List()) != 1 {
		t.Error("the documents are gone")
	}
	var unavailable *catalog.UnavailableError
	if _, err := s.Paper(t.Context(), exam.Key, "xx-sample-2024"); !errors.As(err, &unavailable) {
		t.Errorf("got %v, want an UnavailableError", err)
	}
	if _, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{}); err == nil {
		t.Error("published without a database")
	}
	late := b.snapshot(t, read.SnapshotConfig{PollInterval: 20 * time.Millisecond})
	testkit.Run(t, late.Run)
	if _, err := late.Paper(t.Context(), exam.Key, "xx-sample-2023"); late.Ready() || !errors.As(err, &unavailable) {
		t.Errorf("a pod that never loaded: ready %v, %v", late.Ready(), err)
	}

	restore()
	testkit.Eventually(t, "the uncached paper", func() bool {
		_, err := s.Paper(t.Context(), exam.Key, "xx-sample-2024")
		return err == nil
	})
	testkit.Eventually(t, "the late pod", late.Ready)
	catalogtest.CheckServed(t.Context(), t, late, exam, published)
	exam.Name = "After the outage"
	b.publish(t, exam)
	testkit.Eventually(t, "the new revision", func() bool { return strings.Contains(nameOf(s, exam.Key), exam.Name) })
}

func TestAPaperIsLoadedOnceHoweverManyAsk(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.publish(t, catalogtest.SampleExam())
	s := b.snapshot(t, read.SnapshotConfig{})
	before := b.statements.Load()
	start := make(chan struct{})
	var wait sync.WaitGroup
	for range 100 {
		wait.Go(func() {
			<-start
			if _, err := s.Paper(t.Context(), "xx-sample", "xx-sample-2023"); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wait.Wait()
	if sent := b.statements.Load() - before; sent != 1 {
		t.Errorf("%d loads, want 1", sent)
	}
}

func TestALoadOutlivesTheRequestThatBeganIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.publish(t, catalogtest.SampleExam())
	s := b.snapshot(t, read.SnapshotConfig{})
	holder := testkit.Begin(t, b.pool, "LOCK TABLE paper_revisions IN ACCESS EXCLUSIVE MODE")
	hasty, giveUp := context.WithCancel(t.Context())
	failed, loaded := make(chan error, 1), make(chan error, 1)
	get := func(ctx context.Context, outcome chan<- error) {
		_, err := s.Paper(ctx, "xx-sample", "xx-sample-2023")
		outcome <- err
	}
	go get(hasty, failed)
	testkit.Eventually(t, "the load to wait", func() bool {
		return testkit.Get[int](t, b.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	go get(t.Context(), loaded)
	giveUp()
	var unavailable *catalog.UnavailableError
	if err := testkit.Receive(t, failed, "the hasty request ends"); !errors.As(err, &unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("the hasty request: %v", err)
	}
	testkit.Release(t, holder)
	if err := testkit.Receive(t, loaded, "the patient request ends"); err != nil {
		t.Errorf("the patient request: %v", err)
	}
}

func TestTheCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	exam.Papers = nil
	for i := range 20 {
		paper := catalogtest.SamplePaper(fmt.Sprintf("xx-sample-%02d", i))
		paper.Questions[0].Prompt = strings.Repeat("x", 10_000)
		exam.Papers = append(exam.Papers, paper)
	}
	published := b.publish(t, exam)
	const maximum = 100_000 // four or five of the papers
	s := b.snapshot(t, read.SnapshotConfig{PaperCacheBytes: maximum})
	for range 3 {
		catalogtest.CheckServed(t.Context(), t, s, exam, published)
	}
	if size := s.PaperCacheBytes(); size > maximum || size < maximum/2 {
		t.Errorf("the cache holds %d bytes, want at most %d and not far less", size, maximum)
	}
}

func TestHasOtherRevisionsUnlessThePaperHasOneOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.Clone(catalogtest.SampleExam())
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	b.publish(t, exam)
	exam.Name = "Only the exam changes"
	b.publish(t, exam)
	s := b.snapshot(t, read.SnapshotConfig{})
	if s.HasOtherRevisions(exam.Key, "xx-sample-2023") || s.HasOtherRevisions(exam.Key, "xx-sample-2024") {
		t.Error("a paper with one revision is republished")
	}
	exam.Papers[0].Questions[0].Prompt = "changed"
	b.publish(t, exam)
	s = b.snapshot(t, read.SnapshotConfig{})
	if !s.HasOtherRevisions(exam.Key, "xx-sample-2023") || s.HasOtherRevisions(exam.Key, "xx-sample-2024") {
		t.Error("the changed paper is not republished, or the other one is")
	}
	if !s.HasOtherRevisions(exam.Key, "unheard-of") || !s.HasOtherRevisions("unheard-of", "x") {
		t.Error("of what is not served nothing is known: an attempt may point anywhere")
	}
}
