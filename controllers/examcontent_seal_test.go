package controllers

import (
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

func seal(t *testing.T, content *v1alpha1.ExamContent) {
	t.Helper()
	valid, err := assemble.Assemble(t.Context(), content, nil)
	check.NoError(t, err)
	exam := valid.Exam()
	for i := range exam.Papers {
		digest, err := exam.Papers[i].SealDigest()
		check.NoError(t, err)
		content.Spec.Papers[i].Verification = &v1alpha1.Verification{By: "A. Reviewer", At: "2026-01-31", Digest: digest.String()}
	}
}

func TestProductionRefusesAChangeThatTheSealDoesNotCover(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Production, 1)
	in.operate()
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	message := in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealMismatch)
	if !strings.HasPrefix(message, "spec.papers[0].verification: ") || !strings.Contains(message, "no verification seal") {
		t.Errorf("message without a seal: %q", message)
	}
	if _, ok := in.served(content.Spec.ExamKey); ok {
		t.Error("an unsealed paper is served")
	}

	edit(in, content, func(c *v1alpha1.ExamContent) { seal(t, c) })
	in.ready(content)
	if len(content.Status.Papers) != 1 || !content.Status.Papers[0].Sealed {
		t.Errorf("status of a sealed paper: %+v", content.Status.Papers)
	}

	// A merge changes an answer and leaves the seal.
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Papers[0].Questions[1].Answer.Choice = "C" })
	message = in.until(content, v1alpha1.ConditionPublished, "False", v1alpha1.ReasonSealMismatch)
	for _, want := range []string{"spec.papers[0].verification", "question 1:2 answer", "B → C", "revision 1 stays served"} {
		check.Contains(t, message, want, "message")
	}
	in.until(content, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonSealMismatch)
	in.until(content, v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted)
	check.Equal(t, content.Status.Revision, 1, "published revision")

	in.eventually("tell of it without the answers", func() (bool, string) {
		note := in.event(content, "Warning", v1alpha1.ReasonSealMismatch)
		return strings.Contains(note, "condition Published lists the changes") && !strings.Contains(note, "→"), note
	})

	edit(in, content, func(c *v1alpha1.ExamContent) { seal(t, c) })
	in.ready(content)
	check.Equal(t, content.Status.Revision, 2, "published revision after sealing anew")
}
