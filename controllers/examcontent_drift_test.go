package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

// Somebody edits an answer key: the digests stay as they are.
const wrongAnswer = `UPDATE paper_answer_keys SET answer_key = replace(answer_key::text, '"choices":["B"]', '"choices":["C"]')::json`

// tamper changes the database behind the operator's back.
func (in *installation) tamper(statement string, args ...any) {
	in.t.Helper()
	if tag, err := in.pool.Exec(in.t.Context(), statement, args...); err != nil || tag.RowsAffected() == 0 {
		in.t.Fatalf("%s: %d rows, %v", statement, tag.RowsAffected(), err)
	}
}

// wrongAnswers counts the answer keys of the database that wrongAnswer changed.
func (in *installation) wrongAnswers() int {
	in.t.Helper()
	const query = `SELECT count(*) FROM paper_answer_keys WHERE answer_key::text LIKE '%"choices":["C"]%'`
	return testkit.Get[int](in.t, in.pool, query)
}

func TestDriftIsRepairedAndToldWithoutAnswersInEvents(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	in.tamper(wrongAnswer)
	in.reconcileNow(content, "after the edit")

	message := in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
	if want := "paper " + content.Spec.ExamKey + "-2023 question 1:1 answer: C → B"; !strings.Contains(message, want) {
		t.Errorf("condition %q lacks %q", message, want)
	}
	in.ready(content)
	if n := in.wrongAnswers(); n != 0 || content.Status.Revision != 1 {
		t.Errorf("%d wrong answer keys at revision %d", n, content.Status.Revision)
	}
	note := in.event(content, "Warning", v1alpha1.ReasonDriftRepaired)
	if !strings.Contains(note, "question 1:1 answer changed") || strings.Contains(note, "→") {
		t.Errorf("event %q must name the question and show no value", note)
	}

	// It is told once, and stays in the status until there is another revision.
	in.reconcileNow(content, "once more")
	if again := in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired); again != message {
		t.Errorf("then the condition says %q", again)
	}
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.eventually("forget the repair", func() (bool, string) {
		in.ready(content)
		return meta.FindStatusCondition(in.conditions(content), v1alpha1.ConditionRepaired) == nil, "it is still there"
	})
}

func TestDriftIsNoticedWithinTheResyncInterval(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	content.Spec.ResyncInterval = &metav1.Duration{Duration: 30 * time.Second} // the least there is
	in.create(content)
	in.ready(content)
	in.tamper(`UPDATE exam_revisions SET document = replace(document::text, 'Sample exam', 'Nickname')::json`)
	message := in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
	if !strings.Contains(message, "exam name: Nickname → Sample exam") {
		t.Errorf("condition %q", message)
	}
	if overview, _ := in.served(content.Spec.ExamKey); overview["name"] != "Sample exam" {
		t.Errorf("served: %v", overview)
	}
}

func TestARepairThatWasNotToldIsToldAfterARestart(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	in.stop()
	in.tamper(wrongAnswer)
	// An operator puts it right and is killed before it writes the status: its publisher is all that was at work.
	s := newExamScope(content, in.reconciler().claim(content), time.Now, in.kube)
	r := in.reconciler()
	if _, err := r.resolve(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := r.publish(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	in.operate()
	in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
}

func TestPinnedRevisionThatWasChangedIsNotServedAnew(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Papers[0].Questions[0].Prompt = "Another?" })
	in.ready(content)
	in.tamper(wrongAnswer)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
	message := in.until(content, v1alpha1.ConditionPublished, metav1.ConditionFalse, v1alpha1.ReasonDrifted)
	if want := "spec.revision: revision 1 of exam"; !strings.HasPrefix(message, want) || !strings.Contains(message, "revision 2 stays served") {
		t.Errorf("message %q", message)
	}
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = nil })
	in.ready(content)
	in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
}

func TestAStatusThatWasLostComesBackFromTheDatabase(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	in.operate()
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
	in.until(content, v1alpha1.ConditionPublished, metav1.ConditionTrue, v1alpha1.ReasonPinned)
	in.ready(content)
	want := content.Status.DeepCopy()
	if want.QuestionCount != 2 || want.Revision != 3 {
		t.Fatalf("pinned: %+v", want)
	}
	in.stop()
	if err := in.kube.Status().Patch(t.Context(), content, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))); err != nil {
		t.Fatal(err)
	}
	in.operate()
	in.ready(content)
	got := content.Status
	if got.QuestionCount != 2 || len(got.Papers) != 1 || got.Papers[0] != want.Papers[0] || !got.PublishedAt.Equal(want.PublishedAt) {
		t.Errorf("status %+v, want %+v", got, want)
	}
}

// event waits for an event about an object and returns its note.
func (in *installation) event(object client.Object, kind, reason string) (note string) {
	in.t.Helper()
	in.eventually(fmt.Sprintf("event %s %s", kind, reason), func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := in.kube.List(in.t.Context(), list, client.InNamespace(object.GetNamespace())); err != nil {
			return false, err.Error()
		}
		for _, event := range list.Items {
			if event.Regarding.UID == object.GetUID() && event.Type == kind && event.Reason == reason {
				note = event.Note
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d other events", len(list.Items))
	})
	return note
}
