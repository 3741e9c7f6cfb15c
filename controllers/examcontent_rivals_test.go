package controllers

import (
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

func TestSecondResourceForAnExamKeyChangesNothing(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	in.operate()
	winner, loser := sampleContent("winner", sampleKey(t)), sampleContent("loser", sampleKey(t))
	winner.Spec.Name, loser.Spec.Name = "Winner", "Loser"
	loser.Namespace = in.spaces[1]
	loser.Spec.DeletionPolicy = v1alpha1.DeletionDelete

	in.createReady(winner)
	in.create(loser)
	message := in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
	if owner := winner.Namespace + "/winner"; !strings.Contains(message, owner) || !strings.HasPrefix(message, "spec.examKey:") {
		t.Errorf("message %q does not name the field and the owner %s", message, owner)
	}
	in.until(loser, v1alpha1.ConditionReady, "False", v1alpha1.ReasonExamKeyConflict)
	in.until(loser, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonExamKeyConflict)

	edit(in, loser, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Loser, again" })
	in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
	in.delete(loser)

	in.reconcileNow(winner, "after the loser's deletion")
	in.ready(winner)
	check.Equal(t, winner.Status.Revision, 1, "the winner's revision")
	in.serves(winner.Spec.ExamKey, "Winner", "now")
}

func TestLoserTakesOverWhenTheWinnerIsDeleted(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	in.operate()
	winner, loser := sampleContent("winner", sampleKey(t)), sampleContent("loser", sampleKey(t))
	winner.Spec.Name, loser.Spec.Name = "Winner", "Loser"
	loser.Namespace = in.spaces[1]
	in.createReady(winner)
	in.create(loser)
	in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)

	in.delete(winner)
	in.ready(loser)
	in.serves(loser.Spec.ExamKey, "Loser", "now")
}

func TestAdoptMovesTheClaim(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	in.operate()
	old, adopter := sampleContent("old", sampleKey(t)), sampleContent("adopter", sampleKey(t))
	adopter.Spec.Name, adopter.Spec.Adopt = "Adopted", true
	adopter.Namespace = in.spaces[1]
	in.createReady(old)
	in.create(adopter)
	in.ready(adopter)

	in.reconcileNow(old, "after the move")
	in.until(old, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
	if old.Status.Revision != 0 || len(old.Status.Papers) != 0 {
		t.Errorf("the old owner still claims to have published: %+v", old.Status)
	}
	in.serves(old.Spec.ExamKey, "Adopted", "now")
}

// TestTwoResourcesThatAdoptDoNotTakeTheKeyFromEachOtherForEver: each takes the key once for each change of its spec.
func TestTwoResourcesThatAdoptDoNotTakeTheKeyFromEachOtherForEver(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	in.operate()
	first, second := sampleContent("first", sampleKey(t)), sampleContent("second", sampleKey(t))
	first.Spec.Name, first.Spec.Adopt = "First", true
	second.Spec.Name, second.Spec.Adopt = "Second", true
	second.Namespace = in.spaces[1]
	in.createReady(first)
	in.createReady(second)
	for _, look := range []string{"first look", "second look"} {
		in.reconcileNow(first, look)
		message := in.until(first, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
		check.Contains(t, message, "spec.adopt moves the key once for each change of spec", "message")
		in.reconcileNow(second, look)
		in.ready(second)
		check.Equal(t, second.Status.Revision, 2, "revision at the %s", look)
	}
	in.serves(second.Spec.ExamKey, "Second", "after both looked twice")

	edit(in, first, func(c *v1alpha1.ExamContent) { c.Spec.Name = "First, again" })
	in.ready(first)
	in.serves(first.Spec.ExamKey, "First, again", "after a change of its spec")
	in.reconcileNow(second, "third look")
	in.until(second, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonExamKeyConflict)
}

// TestPinTakesNoKeyWithoutAnOwner: the exam of a deleted resource stays served and without an owner.
func TestPinTakesNoKeyWithoutAnOwner(t *testing.T) {
	t.Parallel()
	in := operating(t)
	first, second := sampleContent("first", sampleKey(t)), sampleContent("second", sampleKey(t))
	in.createReady(first)
	in.delete(first)
	second.Spec.Revision, second.Spec.DeletionPolicy = new(int64(1)), v1alpha1.DeletionDelete
	in.create(second)
	message := in.until(second, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonRevisionNotFound)
	check.Contains(t, message, "spec.revision: revision 1 was published by another resource", "message")
	in.delete(second)
	in.serves(first.Spec.ExamKey, first.Spec.Name, "after the second")
}
