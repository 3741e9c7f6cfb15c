package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// wrongAnswer changes answer keys and no digests.
const wrongAnswer = `UPDATE paper_answer_keys SET answer_key = replace(answer_key::text, '"choices":["B"]', '"choices":["C"]')::json`

func (in *installation) tamper(statement string, args ...any) {
	in.t.Helper()
	if tag, err := in.pool.Exec(in.t.Context(), statement, args...); err != nil || tag.RowsAffected() == 0 {
		in.t.Fatalf("%s: %d rows, %v", statement, tag.RowsAffected(), err)
	}
}

func (in *installation) wrongAnswers() int {
	in.t.Helper()
	const query = `SELECT count(*) FROM paper_answer_keys WHERE answer_key::text LIKE '%"choices":["C"]%'`
	return testkit.Get[int](in.t, in.pool, query)
}

func TestDriftIsRepairedAndReportedWithoutAnswersInEvents(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	in.tamper(wrongAnswer)
	in.reconcileNow(content, "after the edit")

	message := in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
	check.Contains(t, message, "paper "+content.Spec.ExamKey+"-2023 question 1:1 answer: C → B", "condition")
	in.ready(content)
	if n := in.wrongAnswers(); n != 0 || content.Status.Revision != 1 {
		t.Errorf("%d wrong answer keys at revision %d", n, content.Status.Revision)
	}
	note := in.event(content, "Warning", v1alpha1.ReasonDriftRepaired)
	if !strings.Contains(note, "question 1:1 answer changed") || strings.Contains(note, "→") {
		t.Errorf("event %q must name the question and show no value", note)
	}

	// It is reported once, and stays in the status until the next revision.
	in.reconcileNow(content, "once more")
	check.Equal(t, in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired), message, "the condition afterwards")
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.eventually("forget the repair", func() (bool, string) {
		in.ready(content)
		return meta.FindStatusCondition(in.conditions(content), v1alpha1.ConditionRepaired) == nil, "it is still there"
	})
}

// TestDriftIsNoticedWithinTheResyncInterval makes the reconciles by hand, the second one when the first one asked for it.
func TestDriftIsNoticedWithinTheResyncInterval(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	content := sampleContent("sample", sampleKey(t))
	const interval = 30 * time.Second // the least there is
	content.Spec.ResyncInterval = &metav1.Duration{Duration: interval}
	in.create(content)
	r, request := in.reconciler(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)}
	for _, when := range []string{"after the first look", "after a look without a change"} {
		result, err := r.Reconcile(t.Context(), request)
		check.NoError(t, err)
		in.ready(content)
		if result.RequeueAfter > interval || result.RequeueAfter < interval-interval/10 {
			t.Errorf("%s: the next one is in %s, want %s or a little less", when, result.RequeueAfter, interval)
		}
	}
	in.tamper(`UPDATE exam_revisions SET document = replace(document::text, 'Sample exam', 'Nickname')::json`)
	_, err := r.Reconcile(t.Context(), request)
	check.NoError(t, err)
	message := in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
	check.Contains(t, message, "exam name: Nickname → Sample exam", "condition")
	in.serves(content.Spec.ExamKey, "Sample exam", "now")
}

func TestUnreportedRepairIsReportedAfterARestart(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	in.stop()
	in.tamper(wrongAnswer)
	// An operator that repairs it and is killed before it writes the status has used only its publisher.
	s := newExamScope(content, in.reconciler().claim(content), time.Now, in.kube)
	r := in.reconciler()
	_, err := r.resolve(t.Context(), s)
	check.NoError(t, err)
	_, err = r.publish(t.Context(), s)
	check.NoError(t, err)
	in.operate()
	in.until(content, v1alpha1.ConditionRepaired, metav1.ConditionTrue, v1alpha1.ReasonDriftRepaired)
}

func TestChangedPinnedRevisionIsNotServedAgain(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
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
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.createReady(content)
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
	check.NoError(t, in.kube.Status().Patch(t.Context(), content, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))))
	in.operate()
	in.ready(content)
	got := content.Status
	if got.QuestionCount != 2 || len(got.Papers) != 1 || got.Papers[0] != want.Papers[0] || !got.PublishedAt.Equal(want.PublishedAt) {
		t.Errorf("status %+v, want %+v", got, want)
	}
}

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
