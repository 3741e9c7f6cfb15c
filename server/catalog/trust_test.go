package catalog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/seals"
	"examprep.dev/server/seals/sealstest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// signed seals every paper and has verifier sign it.
func signed(t *testing.T, exam catalog.Exam, verifier sealstest.Verifier) catalog.Exam {
	t.Helper()
	exam = catalogtest.Seal(t, exam)
	for i := range exam.Papers {
		statement, err := exam.Papers[i].Statement(exam.Key)
		check.NoError(t, err)
		exam.Papers[i].Verification.Signature = verifier.Sign(t, statement)
	}
	return exam
}

// refused publishes exam, or revision pin of it if that is not 0. It expects the seal gate to refuse that, because no signature counts.
func (b *bench) refused(t *testing.T, exam catalog.Exam, pin int64, want string) *catalog.SealError {
	t.Helper()
	before := rowVersions(t, b)
	_, err := b.try(t, owner, exam, pin, catalog.Options{})
	refusal, ok := errors.AsType[*catalog.SealError](err)
	if !ok || refusal.Untrusted == nil || !strings.Contains(refusal.Error(), want) {
		t.Fatalf("got %v, want …%s…", err, want)
	}
	if _, ok := errors.AsType[*seals.SignatureError](err); !ok {
		t.Errorf("the cause is lost: %v", err)
	}
	if after := rowVersions(t, b); !slices.Equal(before, after) {
		t.Errorf("a refusal wrote rows:\n%v\n%v", before, after)
	}
	return refusal
}

func TestProductionWithTrustedVerifiersPublishesOnlyWhatOneSigned(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	trusted, stranger := sealstest.New(t), sealstest.New(t)
	unsigned := catalogtest.Seal(t, catalogtest.SampleExam())
	first := b.publish(t, unsigned) // from before there were trusted verifiers
	b.publisher = b.publisher.Trusting(sealstest.Trust(t, trusted.Line("reviewer")))
	if again := b.publish(t, unsigned); again.Changed || !slices.Equal(again.Unsealed, []string{"xx-sample-2023"}) {
		t.Errorf("what is published already: %+v", again)
	}

	changed := catalogtest.Clone(catalogtest.SampleExam())
	changed.Papers[0].Questions[0].Answer.Choices = []string{"C"}
	refusal := b.refused(t, catalogtest.Seal(t, changed), 0, "signature is missing")
	if !strings.Contains(refusal.Error(), "question 1:1 answer: B → C") {
		t.Errorf("the change is not told: %v", refusal)
	}
	_ = b.refused(t, signed(t, changed, stranger), 0, "no trusted verifier's")

	good := signed(t, changed, trusted)
	second := b.publish(t, good)
	if second.Revision != 2 || len(second.Unsealed) > 0 {
		t.Errorf("published %+v", second)
	}
	moved := catalogtest.Clone(good)
	moved.Papers[0].Questions[1].Answer.Choices = []string{"A"}
	verification := *good.Papers[0].Verification
	moved = catalogtest.Seal(t, moved)
	moved.Papers[0].Verification.Signature = verification.Signature
	_ = b.refused(t, moved, 0, "not one of this seal")

	another := catalogtest.Clone(good)
	another.Papers = append(another.Papers, signed(t, catalog.Exam{Key: another.Key, Papers: []catalog.Paper{catalogtest.SamplePaper("xx-sample-2024"), catalogtest.SamplePaper("xx-sample-2025")}}, stranger).Papers...)
	if refusal := b.refused(t, another, 0, "paper xx-sample-2024 is not signed"); !slices.Equal(refusal.Others, []string{"xx-sample-2025"}) {
		t.Errorf("others: %v", refusal.Others)
	}

	_ = b.refused(t, good, first.Revision, "signature is missing") // the seal has no signature
	if back := b.publish(t, signed(t, catalogtest.SampleExam(), trusted)); back.Revision != 3 {
		t.Errorf("published %+v", back)
	}
	restored, err := b.publisher.RollBack(t.Context(), owner, good.Key, 2, catalog.Options{})
	if err != nil || restored.Revision != 4 || len(restored.Unsealed) > 0 {
		t.Errorf("a roll-back to what was signed: %+v, %v", restored, err)
	}
}

func TestSandboxPublishesWhatNobodySignedAsUnsealed(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	trusted := sealstest.New(t)
	b.publisher = b.publisher.Trusting(sealstest.Trust(t, trusted.Line("reviewer")))
	if published := b.publish(t, catalogtest.Seal(t, catalogtest.SampleExam())); !slices.Equal(published.Unsealed, []string{"xx-sample-2023"}) {
		t.Errorf("published %+v", published)
	}
	if _, err := catalogtest.Audit(t.Context(), b.pool, catalogtest.SampleExam().Key); err != nil {
		t.Errorf("whose seals are trusted is no matter of content: %v", err)
	}
	if published := b.publish(t, signed(t, catalogtest.SampleExam(), trusted)); !published.Changed || len(published.Unsealed) > 0 {
		t.Errorf("published %+v", published)
	}
}

func TestWhatIsSignedIsThePapersOwnSeal(t *testing.T) {
	t.Parallel()
	paper := catalogtest.SamplePaper("xx-sample-2023")
	digest, err := paper.SealDigest()
	check.NoError(t, err)
	for _, verification := range []*catalog.Verification{nil, {By: "reviewer", At: "2026-01-31", Digest: "sha256:" + strings.Repeat("0", 64)}} {
		paper.Verification = verification
		_, err := paper.Statement("xx-sample")
		if unsealed, ok := errors.AsType[*catalog.UnsealedError](err); !ok || unsealed.Want != digest || !strings.Contains(err.Error(), digest.String()) {
			t.Errorf("verification %+v: %v", verification, err)
		}
	}
	paper.Verification = &catalog.Verification{By: "reviewer", At: "2026-01-31", Digest: digest.String(), Signature: "x"}
	want := seals.Statement{ExamKey: "xx-sample", PaperID: paper.ID, Digest: digest.String(), By: "reviewer", At: "2026-01-31"}
	if statement, err := paper.Statement("xx-sample"); err != nil || statement != want {
		t.Errorf("statement %+v, %v", statement, err)
	}
}

// trusting has the bench's publisher trust one verifier from now on.
func (b *bench) trusting(t *testing.T) sealstest.Verifier {
	t.Helper()
	trusted := sealstest.New(t)
	b.publisher = b.publisher.Trusting(sealstest.Trust(t, trusted.Line("reviewer")))
	return trusted
}

// markRevisions gives every revision the fingerprint of what its rows hold now.
func (b *bench) markRevisions(t *testing.T) {
	t.Helper()
	testkit.Exec(t, b.pool, `UPDATE exam_revisions r SET fingerprint = catalog_revision_fingerprint(r.digest, r.document, r.created_at, (
		SELECT coalesce(string_agg(catalog_paper_line(x.paper_id, x.digest, x.sealed, x.verification), ',' ORDER BY x.paper_id COLLATE "C"), '')
		FROM exam_revision_papers x WHERE x.exam_key = r.exam_key AND x.revision = r.revision))`)
}

func TestWhatIsServedIsRepairedWhoeverIsTrustedBySinceAndComesNotBack(t *testing.T) {
	t.Parallel()
	var tests []drift
	for _, drift := range drifts() {
		if slices.Contains([]string{"answer", "overview", "lost seal", "deleted revision"}, drift.name) {
			tests = append(tests, drift)
		}
	}
	if len(tests) != 4 {
		t.Fatalf("%d tests", len(tests))
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, exam, unsigned := driftBench(t)
			before := contents(t, b, exam.Key)
			test.happen(t, b, exam.Key)
			if contents(t, b, exam.Key) == before {
				t.Fatal("nothing was changed")
			}
			trusted := b.trusting(t)
			again, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{Remembered: catalog.Remembered{unsigned.Revision, unsigned.PublishedAt}})
			check.NoError(t, err)
			var places string
			if again.Repaired != nil {
				places = again.Repaired.Places()
			}
			if again.Changed || (places == "") != (test.places == "") || !strings.Contains(places, test.places) {
				t.Errorf("changed %v, repaired %q, want %q", again.Changed, places, test.places)
			}
			if test.name != "lost seal" && strings.Contains(places, "sealed") {
				t.Errorf("nobody changed a seal: %q", places)
			}
			if len(again.Unsealed) != 2 {
				t.Errorf("unsealed: %v", again.Unsealed)
			}
			if after := contents(t, b, exam.Key); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if _, err := catalogtest.Audit(t.Context(), b.pool, exam.Key); err != nil {
				t.Error(err)
			}

			b.publish(t, signed(t, exam, trusted))
			refusal := b.refused(t, exam, unsigned.Revision, "signature is missing")
			if len(refusal.Others) != 1 {
				t.Errorf("others: %v", refusal.Others)
			}
		})
	}
}

// TestAPinIsJudgedWhateverIsStoredOfItsSeals: the seal gate compares digests itself, and does not go by a column.
func TestAPinIsJudgedWhateverIsStoredOfItsSeals(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	exam := catalogtest.Seal(t, catalogtest.SampleExam())
	b.publish(t, exam)
	trusted := b.trusting(t)
	exam.Name = "Second name"
	b.publish(t, signed(t, exam, trusted))
	exam.Name = "Third name"
	b.publish(t, signed(t, exam, trusted))
	testkit.Exec(t, b.pool, "UPDATE exam_revision_papers SET sealed = false WHERE revision < 3")
	b.markRevisions(t)
	_ = b.refused(t, exam, 1, "signature is missing")
	back, err := b.publisher.RollBack(t.Context(), owner, exam.Key, 2, catalog.Options{})
	if err != nil || back.Revision != 4 || len(back.Unsealed) > 0 {
		t.Errorf("a roll-back to what was signed: %+v, %v", back, err)
	}
	if _, err := catalogtest.Audit(t.Context(), b.pool, exam.Key); err != nil {
		t.Error(err)
	}
}

func TestAPinIsNotTrustedForTheSignatureOfOtherContent(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	exam := catalogtest.Seal(t, catalogtest.SampleExam())
	b.publish(t, exam)
	trusted := b.trusting(t)
	changed := catalogtest.Clone(catalogtest.SampleExam())
	changed.Papers[0].Questions[0].Answer.Choices = []string{"C"}
	b.publish(t, signed(t, changed, trusted))
	// A person who changes a row can change its fingerprint as well.
	testkit.Exec(t, b.pool, "UPDATE exam_revision_papers SET verification = (SELECT verification FROM exam_revision_papers WHERE revision = 2) WHERE revision = 1")
	b.markRevisions(t)
	_, err := b.publisher.RollBack(t.Context(), owner, exam.Key, 1, catalog.Options{})
	if damaged, ok := errors.AsType[*catalog.DamagedError](err); !ok || !slices.Equal(damaged.Papers, []string{"xx-sample-2023"}) {
		t.Errorf("published: %v", err)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT revision FROM exams"); n != 2 {
		t.Errorf("revision %d is published", n)
	}
}

// TestNothingIsPublishedAnewThatOnlyPassedAsServed has what is served change after a publisher looked, and before it has
// the lock: it may repair what is served without a signature, and found something else to do.
func TestNothingIsPublishedAnewThatOnlyPassedAsServed(t *testing.T) {
	t.Parallel()
	heir := catalog.Claim{Cluster: "test", Namespace: "exams", Name: "heir"}
	unsigned := catalogtest.Seal(t, catalogtest.SampleExam())
	other := catalogtest.Clone(catalogtest.SampleExam())
	other.Name = "Other name"
	damage := func(t *testing.T, b *bench) {
		t.Helper()
		testkit.Exec(t, b.pool, "UPDATE paper_revisions SET fingerprint = sha256('')") // a change of the revision's own rows would refuse the pin
	}
	for _, test := range []struct {
		name   string
		before func(t *testing.T, b *bench)
		meddle func(t *testing.T, b *bench, other catalog.Exam)
		claim  catalog.Claim
		pin    int64
	}{
		{"replaced before a repair", damage, replaced, owner, 0},
		{"withdrawn before a repair", damage, withdrawn, owner, 0},
		{"replaced before an adoption", nil, replaced, heir, 0},
		{"replaced before a pin's repair", damage, replaced, owner, 1},
		{"withdrawn before a pin's repair", damage, withdrawn, owner, 1},
		{"replaced before a pin's adoption", nil, replaced, heir, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, postgres.Production)
			b.publish(t, unsigned)
			trusted := b.trusting(t)
			if test.before != nil {
				test.before(t, b)
			}
			b.beforeTheLock(func() { test.meddle(t, b, signed(t, other, trusted)) })
			_, err := b.try(t, test.claim, unsigned, test.pin, catalog.Options{Adopt: true})
			refusal, ok := errors.AsType[*catalog.SealError](err)
			missing, unowned := errors.AsType[*catalog.RevisionNotFoundError](err) // of a pin whose exam was withdrawn
			if (!ok || refusal.Untrusted == nil) && (!unowned || !missing.Unowned) {
				t.Errorf("published: %v", err)
			}
			if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exam_revisions WHERE document->>'name' = $1", unsigned.Name); n != 1 {
				t.Errorf("what nobody signed was published %d times", n)
			}
		})
	}
}

func replaced(t *testing.T, b *bench, other catalog.Exam) {
	t.Helper()
	b.publish(t, other)
}

func withdrawn(t *testing.T, b *bench, other catalog.Exam) {
	t.Helper()
	if err := b.publisher.Release(t.Context(), owner, other.Key, true); err != nil {
		t.Error(err)
	}
}

func TestWhatWasServedAndIsSignedComesBackThoughSomethingElseCameBetween(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	trusted := b.trusting(t)
	exam, other := signed(t, catalogtest.SampleExam(), trusted), catalogtest.Clone(catalogtest.SampleExam())
	b.publish(t, exam)
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET fingerprint = sha256('')")
	other.Name = "Other name"
	b.beforeTheLock(func() { b.publish(t, signed(t, other, trusted)) })
	if published := b.publish(t, exam); !published.Changed || published.Revision != 3 {
		t.Errorf("published %+v", published)
	}
}

// TestAPointerMovedByHandServesNoUnsignedRevision moves the served revision, in the database, to one without a signature.
func TestAPointerMovedByHandServesNoUnsignedRevision(t *testing.T) {
	t.Parallel()
	for _, pin := range []int64{0, 1} {
		b := newBench(t, postgres.Production)
		unsigned := catalogtest.Seal(t, catalogtest.SampleExam())
		b.publish(t, unsigned)
		trusted := b.trusting(t)
		good := catalogtest.Clone(catalogtest.SampleExam())
		good.Name = "Second name"
		good = signed(t, good, trusted)
		b.publish(t, good)
		testkit.Exec(t, b.pool, "UPDATE exams SET (revision, digest) = (SELECT revision, digest FROM exam_revisions WHERE revision = 1)")
		_ = b.refused(t, unsigned, pin, "signature is missing")
		if back := b.publish(t, good); back.Revision != 3 || len(back.Unsealed) > 0 {
			t.Errorf("published %+v", back)
		}
	}
}
