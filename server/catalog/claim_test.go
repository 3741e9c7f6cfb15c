package catalog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestPublishersOfOneKeyTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.subscribe(t)
	const publishers, rounds = 6, 5
	var wait sync.WaitGroup
	for i := range publishers {
		wait.Go(func() {
			for round := range rounds {
				exam := catalogtest.Clone(catalogtest.SampleExam())
				exam.Papers[0].Questions[0].Prompt = fmt.Sprintf("%d of %d", i%3, round) // two at a time publish the same
				if _, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	revision := testkit.Get[int](t, b.pool, "SELECT revision FROM exams")
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exam_revisions"); n != revision {
		t.Errorf("%d revisions, the last is %d", n, revision)
	}
	events := b.events(t)
	versions := make(map[int64]bool)
	for _, event := range events {
		versions[event.ContentVersion] = true
	}
	if len(events) != revision || len(versions) != revision {
		t.Errorf("%d events of %d versions, want %d", len(events), len(versions), revision)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams e JOIN exam_revisions r USING (exam_key, revision) WHERE e.digest = r.digest"); n != 1 {
		t.Error("the pointer and its digest disagree")
	}
}

func TestARefusedClaimantChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.publish(t, catalogtest.SampleExam())
	written := rowVersions(t, b)
	rival := catalog.Claim{Cluster: "test", Namespace: "exams", Name: "rival"}
	other := catalogtest.Clone(catalogtest.SampleExam())
	other.Name = "The rival's"
	var conflict *catalog.ClaimConflictError
	for name, err := range map[string]error{
		"publish": second(b.publisher.Publish(t.Context(), rival, catalogtest.Valid(t, other), catalog.Options{})),
		"pin":     second(b.publisher.RollBack(t.Context(), rival, other.Key, 1, catalog.Options{})),
	} {
		if !errors.As(err, &conflict) || conflict.Owner != owner || conflict.ExamKey != other.Key {
			t.Errorf("%s: got %v, want a ClaimConflictError of %v", name, err, owner)
		}
	}
	for _, deleteContent := range []bool{false, true} {
		if err := b.publisher.Release(t.Context(), rival, other.Key, deleteContent); err != nil {
			t.Error(err)
		}
	}
	if err := b.publisher.Release(t.Context(), rival, "unheard-of", true); err != nil {
		t.Error(err)
	}
	if !slices.Equal(rowVersions(t, b), written) {
		t.Error("the rival wrote")
	}
}

func second[A any](_ A, err error) error { return err }

func TestAClaimIsAdoptedOnPurpose(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.publish(t, catalogtest.SampleExam())
	heir := catalog.Claim{Cluster: "test", Namespace: "exams", Name: "heir"}
	adopted, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, catalogtest.SampleExam()), catalog.Options{Adopt: true})
	if err != nil || adopted.Changed || adopted.Revision != 1 {
		t.Fatalf("adopted %+v, %v: the same content needs no new revision", adopted, err)
	}
	var conflict *catalog.ClaimConflictError
	if _, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, catalogtest.SampleExam()), catalog.Options{}); !errors.As(err, &conflict) || conflict.Owner != heir {
		t.Errorf("got %v, want the heir to be the owner", err)
	}
	check.NoError(t, b.publisher.Release(t.Context(), owner, catalogtest.SampleExam().Key, true))
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams WHERE NOT withdrawn AND claim_name = 'heir'"); n != 1 {
		t.Error("the former owner's deletion dropped the heir's exam")
	}
}

func TestAClaimIsAdoptedFromTheOneThatWasNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.publish(t, catalogtest.SampleExam())
	heir, third := catalog.Claim{Cluster: "test", Namespace: "elsewhere", Name: "heir"}, catalog.Claim{Cluster: "test", Namespace: "third", Name: "third"}
	written := rowVersions(t, b)
	var conflict *catalog.ClaimConflictError
	for name, pin := range map[string]int64{"publish": 0, "pin": 1} {
		if _, err := b.try(t, heir, catalogtest.SampleExam(), pin, catalog.Options{AdoptFrom: &third}); !errors.As(err, &conflict) || conflict.Owner != owner {
			t.Errorf("%s: got %v, want a ClaimConflictError of %v", name, err, owner)
		}
	}
	if !slices.Equal(rowVersions(t, b), written) {
		t.Error("something was written for the sake of one who holds nothing")
	}
	if _, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, catalogtest.SampleExam()), catalog.Options{AdoptFrom: &owner}); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams WHERE claim_name = 'heir'"); n != 1 {
		t.Error("the claim did not move")
	}
}

// An unsealed exam takes no claim from another owner. Otherwise a permission to adopt would be enough to lock the owner out.
func TestTheSealGateMovesNoClaimThatIsHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	exam := catalogtest.Seal(t, catalogtest.SampleExam())
	b.publish(t, exam)
	heir := catalog.Claim{Cluster: "test", Namespace: "elsewhere", Name: "heir"}
	written := rowVersions(t, b)
	for name, options := range map[string]catalog.Options{"from whoever": {Adopt: true}, "from the owner": {AdoptFrom: &owner}} {
		unsealed := catalogtest.Clone(exam)
		unsealed.Papers[0].Questions[0].Prompt = "Changed, and not sealed"
		_, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, unsealed), options)
		var refused *catalog.SealError
		if !errors.As(err, &refused) || refused.Owner == nil || *refused.Owner != owner || len(refused.Changes) > 0 {
			t.Errorf("%s: got %v, want a SealError that names the owner and nothing of what is the owner's", name, err)
		}
		if !slices.Equal(rowVersions(t, b), written) {
			t.Errorf("%s: something was written", name)
		}
	}
	if _, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, exam), catalog.Options{Adopt: true}); err != nil {
		t.Errorf("what is sealed is not adopted: %v", err)
	}
}

// Two claimants publish, adopt and release at once, in every order. At any time one of them or none owns the exam, and
// the exam is served unless it was deleted.
func TestTwoClaimantsInAnyOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		key := fmt.Sprintf("contested-%d", i)
		var wait sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			claim := catalog.Claim{"test", "exams", name}
			steps := rng.Perm(4)
			wait.Go(func() {
				for _, step := range steps {
					exam := catalogtest.Clone(catalogtest.SampleExam())
					exam.Key, exam.Name = key, name
					var err error
					switch step {
					case 0, 1:
						_, err = b.publisher.Publish(t.Context(), claim, catalogtest.Valid(t, exam), catalog.Options{Adopt: step == 1})
					default:
						err = b.publisher.Release(t.Context(), claim, key, step == 3)
					}
					var conflict *catalog.ClaimConflictError
					if err != nil && (!errors.As(err, &conflict) || conflict.Owner == claim) {
						t.Errorf("%s, step %d: %v", name, step, err)
					}
				}
			})
		}
		wait.Wait()
		var final struct {
			name                *string
			document            string
			withdrawn           bool
			revision, revisions int64
		}
		err := b.pool.QueryRow(t.Context(), `
			SELECT claim_name, withdrawn, e.revision, r.document->>'name', (SELECT count(*) FROM exam_revisions x WHERE x.exam_key = e.exam_key)
			FROM exams e JOIN exam_revisions r USING (exam_key, revision) WHERE exam_key = $1`, key).
			Scan(&final.name, &final.withdrawn, &final.revision, &final.document, &final.revisions)
		check.NoError(t, err)
		if final.name != nil && (*final.name != final.document || final.withdrawn) {
			t.Errorf("%s owns what is %s's (withdrawn: %v)", *final.name, final.document, final.withdrawn)
		}
		if final.revision != final.revisions {
			t.Errorf("revision %d of %d", final.revision, final.revisions)
		}
	}
}

func TestReleaseRetainsOrWithdraws(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	b.subscribe(t)
	exam := catalogtest.SampleExam()
	first := b.publish(t, exam)
	check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, false))
	s := b.snapshot(t, read.SnapshotConfig{})
	if _, err := s.Overview(exam.Key); err != nil {
		t.Error("a retained exam is not served")
	}
	heir := catalog.Claim{"test", "exams", "heir"}
	if _, err := b.publisher.Publish(t.Context(), heir, catalogtest.Valid(t, exam), catalog.Options{}); err != nil {
		t.Fatalf("a released claim is not free: %v", err)
	}
	check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, true))
	if _, err := b.snapshot(t, read.SnapshotConfig{}).Overview(exam.Key); err != nil {
		t.Errorf("a resource without the claim withdrew the exam: %v", err)
	}
	check.NoError(t, b.publisher.Release(t.Context(), heir, exam.Key, true))
	s = b.snapshot(t, read.SnapshotConfig{})
	if _, err := s.Overview(exam.Key); err == nil || len(s.List()) != 0 {
		t.Error("a withdrawn exam is served")
	}
	var missing *catalog.NotFoundError
	if _, err := s.Paper(t.Context(), exam.Key, "xx-sample-2023"); !errors.As(err, &missing) || missing.What != "exam" {
		t.Errorf("got %v, want no such exam", err)
	}
	digest := first.PaperDigests["xx-sample-2023"]
	if _, err := s.Revision(t.Context(), exam.Key, digest); err != nil {
		t.Errorf("attempts in hand cannot be paged: %v", err)
	}
	if _, err := catalogtest.AnswerKeys(t, s).Get(t.Context(), exam.Key, digest); err != nil {
		t.Errorf("attempts in hand cannot be scored: %v", err)
	}
	again := b.publish(t, exam)
	if again.Revision != 2 || !again.Changed {
		t.Errorf("publishing a withdrawn exam again: %+v", again)
	}
	catalogtest.CheckServed(t.Context(), t, b.snapshot(t, read.SnapshotConfig{}), exam, again)
	events := b.events(t)
	if len(events) != 3 || !slices.Equal(events[1].Changes, []string{"withdrawn"}) || !slices.Equal(events[1].PaperIDs, []string{"xx-sample-2023"}) {
		t.Errorf("events %+v", events)
	}
}

// A released exam is served and has no owner. A claimant without a seal published nothing, so its deletion must withdraw nothing, and
// the refusal must show it none of the served answers.
func TestAnUnsealedClaimantOfAServedExamGetsNeitherTheKeyNorTheAnswers(t *testing.T) {
	t.Parallel()
	for name, withdrawn := range map[string]bool{"served": false, "withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, postgres.Production)
			exam := catalogtest.Seal(t, catalogtest.SampleExam())
			b.publish(t, exam)
			check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, withdrawn))
			stranger := catalog.Claim{Cluster: "test", Namespace: "elsewhere", Name: "stranger"}
			unsealed := catalogtest.Clone(exam)
			unsealed.Papers[0].Questions[0].Answer.Choices = []string{"A"}
			for range 2 { // the second time, a claim that was taken would be the stranger's own
				_, err := b.publisher.Publish(t.Context(), stranger, catalogtest.Valid(t, unsealed), catalog.Options{})
				var refused *catalog.SealError
				if !errors.As(err, &refused) || refused.Unclaimed == withdrawn {
					t.Fatalf("got %v, want a SealError", err)
				}
				for _, change := range refused.Changes {
					if change.AnswerID != "" || change.Kind != catalog.Added {
						t.Errorf("the refusal tells of the exam before: %v", change)
					}
				}
			}
			owners := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams WHERE claim_name = 'stranger'")
			check.Equal(t, owners == 1, withdrawn, "the stranger owns the key")
			check.NoError(t, b.publisher.Release(t.Context(), stranger, exam.Key, true))
			if _, err := b.snapshot(t, read.SnapshotConfig{}).Overview(exam.Key); (err != nil) != withdrawn {
				t.Errorf("the stranger's deletion: %v", err)
			}
			again := b.publish(t, exam) // the first sealed papers get the key
			check.Equal(t, again.Changed, withdrawn, "published anew")
		})
	}
}
