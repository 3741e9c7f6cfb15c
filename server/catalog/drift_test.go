package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// drift is a change in the database, and the repair's description of it.
type drift struct {
	name string
	// statement has ofExam where it selects the exam.
	statement string
	// places must be in what the repair tells without values.
	places string
	// events is how many exam.content_updated events the repair causes, also without a new revision.
	events int
	anew   bool
}

// ofExam is the condition of statements that selects rows of one exam.
const ofExam = "{exam}"

// happen changes what is stored of an exam.
func (d drift) happen(t *testing.T, b *bench, examKey string) {
	t.Helper()
	testkit.Exec(t, b.pool, strings.ReplaceAll(d.statement, ofExam, "exam_key = '"+examKey+"'"))
}

const driftedPaper = "paper xx-sample-2023 "

// drifts are against an exam at revision 2 with the papers xx-sample-2022 and xx-sample-2023.
func drifts() []drift {
	const (
		paper = " WHERE paper_id = 'xx-sample-2023' AND " + ofExam
		keys  = " WHERE " + ofExam + " AND digest IN (SELECT digest FROM paper_revisions" + paper + ")"
		now   = " WHERE revision = 2 AND " + ofExam
		one   = " WHERE " + ofExam
	)
	key := func(old, next string) string {
		return "UPDATE paper_answer_keys SET answer_key = replace(answer_key::text, '" + old + "', '" + next + "')::json" + keys
	}
	questions := func(old, next string) string {
		return "UPDATE paper_revisions SET questions = replace(questions::text, '" + old + "', '" + next + "')::json" + paper
	}
	document := func(old, next string) string {
		return "UPDATE exam_revisions SET document = replace(document::text, '" + old + "', '" + next + "')::json" + now
	}
	return []drift{
		{"answer", key(`["B"]`, `["C"]`), driftedPaper + "question 1:1 answer changed", 1, false},
		{"explanation", key("Count.", "Guess."), driftedPaper + "question 1:1 explanation changed", 1, false},
		{"marking of the key", key(`"correct":3`, `"correct":9`), driftedPaper + "scoring of the answer key changed", 1, false},
		{"answer key without an answer", key(`"questions":[`, `"question":[`), driftedPaper + "answer key as stored changed", 1, false},
		{"deleted answer key", "DELETE FROM paper_answer_keys" + keys, driftedPaper, 1, false},
		{"prompt", questions("1 + 1", "1 + 2"), driftedPaper + "question 1:1 prompt changed", 1, false},
		{"option", questions(`"one"`, `"uno"`), driftedPaper + "question 1:1 options.A changed", 1, false},
		{"number of a stored question", questions(`"number":4`, `"number":9`), driftedPaper + "questions as stored changed", 1, false},
		{"space in the stored text", questions("[{", "[ {"), driftedPaper + "questions as stored changed", 1, false},
		{"deleted question", "UPDATE paper_revisions SET questions = (questions::jsonb - 0)::json" + paper, driftedPaper + "questions as stored changed", 1, false},
		{"questions of another shape", "UPDATE paper_revisions SET questions = '7'" + paper, driftedPaper + "questions as stored changed", 1, false},
		{"count", "UPDATE paper_revisions SET question_count = 99" + paper, driftedPaper + "questionCount changed", 1, false},
		{"title", "UPDATE paper_revisions SET title = 'Sampled'" + paper, driftedPaper + "title changed", 1, false},
		{"year", "UPDATE paper_revisions SET year = 1999" + paper, driftedPaper + "year changed", 1, false},
		{"time limit", "UPDATE paper_revisions SET duration_minutes = 1" + paper, driftedPaper + "time limit changed", 1, false},
		{"seal digest", "UPDATE paper_revisions SET seal_digest = sha256('')" + paper, driftedPaper + "seal digest changed", 1, false},
		{"paper under another ID", "UPDATE paper_revisions SET paper_id = 'xx-other'" + paper, driftedPaper + "paperID changed", 1, false},
		{"license", "UPDATE paper_revisions SET metadata = replace(metadata::text, 'CC0', 'MIT')::json" + paper, driftedPaper + "provenance.license changed", 1, false},
		{"fingerprint", "UPDATE paper_revisions SET fingerprint = sha256('')" + paper, driftedPaper + "fingerprint changed", 1, false},
		{"paper left out", "DELETE FROM exam_revision_papers" + paper + " AND revision = 2", driftedPaper + "added", 1, false},
		{"deleted paper", "DELETE FROM exam_revision_papers" + paper + "; DELETE FROM paper_revisions" + paper, driftedPaper + "added", 1, false},
		{"stray paper", "INSERT INTO exam_revision_papers SELECT exam_key, 2, 'xx-stray', digest, true, NULL FROM paper_revisions" + paper, "paper xx-stray removed", 1, false},
		{"lost seal", "UPDATE exam_revision_papers SET sealed = false, verification = NULL" + paper + " AND revision = 2", driftedPaper + "sealed added", 1, false},
		{"overview", document("Second name", "Nickname"), "exam name changed", 1, false},
		{"resources", document("https://example.org/", "https://example.com/"), "exam resources.officialSites[0] changed", 1, false},
		{"study path", document("Begin", "End"), "exam studyPath.steps[0] changed", 1, false},
		{"document of another shape", "UPDATE exam_revisions SET document = '[]'" + now, "exam revision 2 removed", 1, false},
		{"deleted revision", "DELETE FROM exam_revisions" + now, "exam revision 2 removed", 1, false},
		{"time of publication", "UPDATE exam_revisions SET created_at = '2001-01-01'" + now, "exam publishedAt changed", 0, false},
		{"digest of the pointer", "UPDATE exams SET digest = sha256('')" + one, "exam published digest changed", 0, false},
		{"pointer moved back", "UPDATE exams SET (revision, digest) = (SELECT revision, digest FROM exam_revisions WHERE revision = 1 AND " + ofExam + ")" + one, "exam published revision changed", 1, true},
		{"pointer to nothing", "UPDATE exams SET revision = 0, digest = NULL" + one, "exam published revision changed", 1, true},
		{"withdrawn by hand", "UPDATE exams SET withdrawn = true" + one, "exam withdrawn changed", 1, true},
		{"deleted exam", "DELETE FROM exam_revisions" + one + "; DELETE FROM paper_revisions" + one + "; DELETE FROM exams" + one, "exam published revision changed", 1, true},
	}
}

// driftBench is an exam at revision 2, and what it is published as.
func driftBench(t *testing.T) (b *bench, exam catalog.Exam, published catalog.Publication) {
	t.Helper()
	b = newBench(t, postgres.Production)
	b.subscribe(t)
	exam, published = b.publishTwice(t, catalogtest.SampleExam().Key)
	return b, exam, published
}

// publishTwice publishes the sample exam under a key, up to revision 2.
func (b *bench) publishTwice(t *testing.T, examKey string) (exam catalog.Exam, published catalog.Publication) {
	t.Helper()
	exam = catalogtest.Clone(catalogtest.SampleExam())
	exam.Key = examKey
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2022"))
	exam = catalogtest.Seal(t, exam)
	b.publish(t, exam)
	exam.Name = "Second name"
	return exam, b.publish(t, exam)
}

// contents are all rows of an exam's content.
func contents(t *testing.T, b *bench, examKey string) string {
	t.Helper()
	rows := testkit.Get[string](t, b.pool, `SELECT concat_ws(E'\n',
		(SELECT string_agg(r::text, E'\n' ORDER BY revision) FROM exam_revisions r WHERE exam_key = $1),
		(SELECT string_agg(x::text, E'\n' ORDER BY revision, paper_id) FROM exam_revision_papers x WHERE revision = 2 AND exam_key = $1),
		(SELECT string_agg((to_jsonb(p) - 'created_at')::text, E'\n' ORDER BY digest) FROM paper_revisions p WHERE exam_key = $1),
		(SELECT string_agg(k::text, E'\n' ORDER BY digest) FROM paper_answer_keys k WHERE exam_key = $1))`, examKey)
	return rows
}

func TestWhatSomebodyChangesInTheDatabaseIsFoundToldAndPutRight(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	b.subscribe(t)
	for i, test := range drifts() {
		t.Run(test.name, func(t *testing.T) {
			exam, published := b.publishTwice(t, fmt.Sprintf("xx-drift-%d", i))
			if audited, err := catalogtest.Audit(t.Context(), b.pool, exam.Key); err != nil || audited.Digest != published.Digest {
				t.Fatalf("%+v, %v", audited, err)
			}
			before, events := contents(t, b, exam.Key), len(b.events(t))
			test.happen(t, b, exam.Key)
			told := catalog.Publication{Revision: published.Revision, Digest: published.Digest, PublishedAt: published.PublishedAt}
			if standing, ok, err := b.publisher.Standing(t.Context(), owner, exam.Key); err != nil || ok && reflect.DeepEqual(standing, told) {
				t.Errorf("what was changed stands as %+v (%v)", standing, err)
			}
			options := catalog.Options{Remembered: catalog.Remembered{Revision: published.Revision, PublishedAt: published.PublishedAt}}
			again, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), options)
			check.NoError(t, err)
			if again.Changed != test.anew || again.Repaired == nil || !strings.Contains(again.Repaired.Places(), test.places) {
				t.Errorf("changed %v, repaired %+v, want %q", again.Changed, again.Repaired, test.places)
			}
			if got := len(b.events(t)) - events; got != test.events {
				t.Errorf("%d events, want %d", got, test.events)
			}
			if after := contents(t, b, exam.Key); !test.anew && after != before {
				t.Errorf("stored before:\n%s\nand after:\n%s", before, after)
			}
			catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), exam, again)
			if audited, err := catalogtest.Audit(t.Context(), b.pool, exam.Key); err != nil || audited.Digest != published.Digest {
				t.Errorf("%+v, %v", audited, err)
			}

			b.statements.Store(0)
			settled, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), options)
			again.Changed = false
			if err != nil || !reflect.DeepEqual(settled, again) || b.statements.Load() != 1 {
				t.Errorf("then %+v (%v) with %d statements, want %+v with 1", settled, err, b.statements.Load(), again)
			}
			told = catalog.Publication{Revision: again.Revision, Digest: again.Digest, PublishedAt: again.PublishedAt, Repaired: again.Repaired}
			if standing, ok, err := b.publisher.Standing(t.Context(), owner, exam.Key); err != nil || !ok || !reflect.DeepEqual(standing, told) {
				t.Errorf("%+v stands (%t, %v), want %+v", standing, ok, err, told)
			}
		})
	}
}

func TestAnExamThatWasWithdrawnIsNotRepairedByWhoeverTakesItsKeyUnsealed(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	exam := catalogtest.SampleExam()
	b.publish(t, catalogtest.Seal(t, exam))
	check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, true))
	exam.Papers[0].Verification = nil
	if _, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{}); err == nil {
		t.Fatal("an unsealed paper was published")
	}
	again := b.publish(t, catalogtest.Seal(t, exam))
	if again.Revision != 2 || !again.Changed || again.Repaired != nil {
		t.Errorf("published %+v, want revision 2 and nothing repaired", again)
	}
}

func TestAWrongAnswerKeyThatIsServedIsCorrectedOnARunningSnapshot(t *testing.T) {
	t.Parallel()
	b, exam, published := driftBench(t)
	const paperID = "xx-sample-2023"
	digest := published.PaperDigests[paperID]
	right, err := catalogtest.AnswerKeys(t, b.snapshot(t, read.SnapshotConfig{})).Get(t.Context(), exam.Key, digest)
	check.NoError(t, err)
	for _, tampered := range drifts()[:7] {
		tampered.happen(t, b, exam.Key)
	}
	testkit.Exec(t, b.pool, "INSERT INTO paper_answer_keys SELECT exam_key, digest, $1 FROM paper_revisions WHERE paper_id = $2", `{"questions":[{},{},{},{},{},{}]}`, paperID)
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET document = replace(document::text, 'Second name', 'Nickname')::json")
	s := b.snapshot(t, read.SnapshotConfig{})
	testkit.Run(t, s.Run)
	answerKeys := catalogtest.AnswerKeys(t, s)
	read := func() (prompt string, keys []catalog.QuestionKey, overview string) {
		t.Helper()
		paper, err := s.Paper(t.Context(), exam.Key, paperID)
		check.NoError(t, err)
		key, err := answerKeys.Get(t.Context(), exam.Key, digest)
		check.NoError(t, err)
		document, _ := s.Overview(exam.Key)
		return string(paper.Questions[0]), key.Keys, string(document.JSON)
	}
	if prompt, keys, overview := read(); !strings.Contains(prompt, "1 + 2") || reflect.DeepEqual(keys, right.Keys) || !strings.Contains(overview, "Nickname") {
		t.Fatalf("served before the repair: %s, %v, %s", prompt, keys, overview)
	}
	b.publish(t, exam)
	testkit.Eventually(t, "the running snapshot serves what is declared", func() bool {
		prompt, keys, overview := read()
		return strings.Contains(prompt, "1 + 1") && reflect.DeepEqual(keys, right.Keys) && strings.Contains(overview, "Second name")
	})
}

func TestAChangedPaperIsPutRightBeforeAnotherRevisionTakesItOver(t *testing.T) {
	t.Parallel()
	b, exam, _ := driftBench(t)
	drifts()[0].happen(t, b, exam.Key)
	exam.Name = "Third name"
	published := b.publish(t, exam)
	if !published.Changed || published.Repaired == nil || !strings.Contains(published.Repaired.String(), "question 1:1 answer: C → B") {
		t.Errorf("published %+v, repaired %v", published, published.Repaired)
	}
	catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), exam, published)
}

func TestARepairIsToldAlsoWhenTheClaimMovesAfterIt(t *testing.T) {
	t.Parallel()
	b, exam, _ := driftBench(t)
	heir := catalog.Claim{Cluster: "test", Namespace: "exams", Name: "heir"}
	drifts()[0].happen(t, b, exam.Key)
	repaired := b.publish(t, exam).Repaired
	adopted, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, exam), catalog.Options{Adopt: true})
	if err != nil || repaired == nil || !reflect.DeepEqual(adopted.Repaired, repaired) {
		t.Errorf("adopted as %+v (%v), want the repair %+v", adopted, err, repaired)
	}
	for claim, want := range map[catalog.Claim]bool{owner: false, heir: true} {
		if _, ok, err := b.publisher.Standing(t.Context(), claim, exam.Key); err != nil || ok != want {
			t.Errorf("it stands for %s: %t (%v), want %t", claim, ok, err, want)
		}
	}
}

// TestARepairThatCannotBeReadKeepsNoExamFromBeingPublished: a damaged repair record keeps only its time.
func TestARepairThatCannotBeReadKeepsNoExamFromBeingPublished(t *testing.T) {
	t.Parallel()
	b, exam, _ := driftBench(t)
	drifts()[0].happen(t, b, exam.Key)
	repaired := b.publish(t, exam).Repaired
	for _, spoilt := range []string{`[]`, `"x"`, `{"changes": "x"}`, `{"changes": [1]}`, `null`} {
		testkit.Exec(t, b.pool, `UPDATE exam_repairs SET changes = '`+spoilt+`'`)
		standing, ok, err := b.publisher.Standing(t.Context(), owner, exam.Key)
		if err != nil || !ok || standing.Repaired == nil || !standing.Repaired.At.Equal(repaired.At) || len(standing.Repaired.Changes) > 0 {
			t.Fatalf("with changes %s it stands as %+v, %t (%v)", spoilt, standing, ok, err)
		}
	}
	exam.Name = "Third name"
	if published := b.publish(t, catalogtest.Seal(t, exam)); published.Revision != 3 {
		t.Errorf("published as %+v", published)
	}
}

func TestAPinToContentThatWasChangedIsRefused(t *testing.T) {
	t.Parallel()
	renamed := drift{statement: "UPDATE exam_revisions SET document = replace(document::text, 'Sample exam', 'Nickname')::json"}
	for _, test := range []struct {
		name  string
		drift drift
		want  string
	}{
		{"paper", drifts()[0], "xx-sample-2023"},
		{"revision", renamed, "revision 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, exam, _ := driftBench(t)
			test.drift.happen(t, b, exam.Key)
			var damaged *catalog.DamagedError
			_, err := b.publisher.RollBack(t.Context(), owner, exam.Key, 1, catalog.Options{})
			if !errors.As(err, &damaged) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("published: %v", err)
			}
			if n := testkit.Get[int](t, b.pool, "SELECT revision FROM exams"); n != 2 {
				t.Errorf("revision %d is published", n)
			}
		})
	}
}

func TestPlacesOfARepairShowNoAnswer(t *testing.T) {
	t.Parallel()
	old, next := catalogtest.SamplePaper("xx"), catalogtest.SamplePaper("xx")
	next.Questions[0].Answer.Choices, next.Questions[3].Answer.Text = []string{"C"}, "chlorophyll"
	next.Questions = append(next.Questions, catalog.Question{Section: 9, Number: 9, Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "secret"}})
	repair := &catalog.Repair{Changes: catalog.ComparePapers(&old, &next), More: 7}
	raw, err := json.Marshal(repair)
	if err != nil || !strings.Contains(string(raw), "secret") {
		t.Fatalf("the changes do not hold the answers: %s, %v", raw, err)
	}
	for _, answer := range []string{"secret", "chlorophyll", "photosynthesis", "→"} {
		if strings.Contains(repair.Places(), answer) {
			t.Errorf("%q shows %q", repair.Places(), answer)
		}
	}
	if !strings.HasSuffix(repair.String(), "; and 5 more changes") {
		t.Errorf("%q", repair.String())
	}
}
