package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/postgres"
	"examprep.dev/server/seals/sealstest"
	"examprep.dev/server/testkit/check"
)

func verifierSigns(t *testing.T, verifier sealstest.Verifier, content *v1alpha1.ExamContent) {
	t.Helper()
	seal(t, content)
	valid, err := assemble.Assemble(t.Context(), content, nil)
	check.NoError(t, err)
	exam := valid.Exam()
	for i := range exam.Papers {
		statement, err := exam.Papers[i].Statement(exam.Key)
		check.NoError(t, err)
		content.Spec.Papers[i].Verification.Signature = verifier.Sign(t, statement)
	}
}

// answerServed is the answer of question 1:2 in the revision that is served.
func (in *installation) answerServed(examKey string) (letter string) {
	in.t.Helper()
	err := in.pool.QueryRow(in.t.Context(), `SELECT k.answer_key #>> '{questions,1,answer,choices,0}'
		FROM exams JOIN exam_revision_papers r USING (exam_key, revision) JOIN paper_answer_keys k ON k.exam_key = exams.exam_key AND k.digest = r.digest
		WHERE exams.exam_key = $1`, examKey).Scan(&letter)
	check.NoError(in.t, err)
	return letter
}

func TestProductionWithTrustedVerifiersServesOnlyWhatOneSigned(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Production, 1)
	trusted, stranger := sealstest.New(t), sealstest.New(t)
	in.deps.Publisher = catalog.NewPublisher(in.pool, postgres.Production).Trusting(sealstest.Trust(t, trusted.Line(`"A. Reviewer"`)))
	in.operate()
	content := sampleContent("sample", sampleKey(t))
	seal(t, content)
	in.create(content)
	message := in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealUntrusted)
	if !strings.HasPrefix(message, "spec.papers[0].verification.signature: ") || !strings.Contains(message, "signature is missing") ||
		!strings.Contains(message, "content digest --message") {
		t.Errorf("message without a signature: %q", message)
	}
	if _, ok := in.served(content.Spec.ExamKey); ok {
		t.Error("an unsigned paper is served")
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { verifierSigns(t, trusted, c) })
	in.ready(content)
	if !content.Status.Papers[0].Sealed || in.answerServed(content.Spec.ExamKey) != "B" {
		t.Errorf("status of a signed paper: %+v", content.Status.Papers)
	}

	// A user with write access to the resource changes an answer, seals the paper and signs with their own key.
	edit(in, content, func(c *v1alpha1.ExamContent) {
		c.Spec.Papers[0].Questions[1].Answer.Choice = "C"
		verifierSigns(t, stranger, c)
	})
	message = in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealUntrusted)
	for _, want := range []string{"spec.papers[0].verification.signature", "no trusted verifier's", "question 1:2 answer: B → C", "revision 1 stays served"} {
		check.Contains(t, message, want, "message")
	}
	in.until(content, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonSealUntrusted)
	in.eventually("record the refusal without the answers", func() (bool, string) {
		notes := in.eventNotes(content)
		all := strings.Join(notes, "\n")
		return strings.Contains(all, "lists the changes") && !strings.Contains(all, "B → C"), all
	})
	in.until(content, v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted)
	if content.Status.Revision != 1 || in.answerServed(content.Spec.ExamKey) != "B" {
		t.Errorf("revision %d, answer %s is served", content.Status.Revision, in.answerServed(content.Spec.ExamKey))
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { verifierSigns(t, trusted, c) })
	in.ready(content)
	if content.Status.Revision != 2 || in.answerServed(content.Spec.ExamKey) != "C" {
		t.Errorf("revision %d, answer %s is served", content.Status.Revision, in.answerServed(content.Spec.ExamKey))
	}
}

// eventNotes are the texts of all events of a resource.
func (in *installation) eventNotes(object client.Object) (notes []string) {
	in.t.Helper()
	list := &eventsv1.EventList{}
	check.NoError(in.t, in.kube.List(in.t.Context(), list, client.InNamespace(object.GetNamespace())))
	for _, event := range list.Items {
		if event.Regarding.UID == object.GetUID() {
			notes = append(notes, event.Note)
		}
	}
	return notes
}

func TestRollBackToUnsignedRevisionIsRefused(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Production, 1)
	in.operate()
	content := sampleContent("sample", sampleKey(t))
	seal(t, content)
	in.create(content)
	in.ready(content) // no verifiers yet
	in.stop()
	trusted := sealstest.New(t)
	in.deps.Publisher = catalog.NewPublisher(in.pool, postgres.Production).Trusting(sealstest.Trust(t, trusted.Line("*")))
	in.operate()
	edit(in, content, func(c *v1alpha1.ExamContent) { verifierSigns(t, trusted, c) })
	in.ready(content)
	pin := int64(1)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Revision = &pin })
	message := in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealUntrusted)
	if !strings.HasPrefix(message, "spec.revision: ") || !strings.Contains(message, "signature is missing") ||
		!strings.Contains(message, "revision 2 stays served") {
		t.Errorf("message %q", message)
	}
}

// TestARefusedChunkedPaperShowsTheQuestion has a paper whose questions are in a ConfigMap.
func TestARefusedChunkedPaperShowsTheQuestion(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Production, 1)
	in.operate()
	content := sampleContent("sample", sampleKey(t))
	inline := content.DeepCopy()
	seal(t, inline)
	text, _ := chunk(t, 1, 2)
	content.Spec.Papers[0] = chunkedPaper(content.Spec.Papers[0].PaperID, "chunks", "")
	content.Spec.Papers[0].Verification = inline.Spec.Papers[0].Verification
	chunks := chunkMap("chunks", text)
	in.create(chunks)
	in.createReady(content)

	edit(in, chunks, func(c *corev1.ConfigMap) {
		c.Data[chunkKey(0)] = strings.Replace(text, `"choice":"B"`, `"annulled":true`, 1)
	})
	message := in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealMismatch)
	for _, want := range []string{"spec.papers[0].verification: ", "question 1:1 answer: B → annulled", "revision 1 stays served"} {
		check.Contains(t, message, want, "message")
	}
}
