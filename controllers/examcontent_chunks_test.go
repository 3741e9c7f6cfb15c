package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit/check"
)

func TestMissingChunkIsNamedAndItsArrivalPublishes(t *testing.T) {
	t.Parallel()
	in := operating(t)
	text, digest := chunk(t, 1, 2)
	more, moreDigest := chunk(t, 3, 3)
	key := sampleKey(t)
	content := sampleContent("sample", key)
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper(key+"-2024", "questions", digest, moreDigest))
	in.create(content)
	message := in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
	if want := fmt.Sprintf("spec.papers[1].questionsFrom[0]: ConfigMap %s/questions not found", in.space()); !strings.HasPrefix(message, want) {
		t.Errorf("message %q, want %q", message, want)
	}
	in.until(content, v1alpha1.ConditionReconciling, "True", v1alpha1.ReasonProgressing)
	if _, ok := in.served(key); ok {
		t.Error("an exam is served whose chunk is missing")
	}

	configMap := chunkMap("questions", text)
	in.create(configMap)
	message = ""
	in.eventually("name the missing key", func() (bool, string) {
		message = in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
		return strings.Contains(message, "questions has no key"), message
	})
	if want := fmt.Sprintf("spec.papers[1].questionsFrom[1]: ConfigMap %s/questions has no key part-1.json", in.space()); !strings.HasPrefix(message, want) {
		t.Errorf("message %q, want %q", message, want)
	}

	edit(in, configMap, func(c *corev1.ConfigMap) { c.Data[chunkKey(1)] = more })
	in.ready(content)
	check.Slices(t, in.servedPaper(key, key+"-2024"), []string{"Question 1?", "Question 2?", "Question 3?"}, "served")
}

func TestChunkThatIsNotAsDeclaredKeepsTheOldRevision(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	text, digest := chunk(t, 1, 2)
	configMap := chunkMap("questions", text)
	in.create(configMap)
	content := sampleContent("sample", key)
	content.Spec.Papers = []v1alpha1.Paper{chunkedPaper(key+"-2024", "questions", digest)}
	in.createReady(content)

	// Half of a change: the ConfigMap is new, the resource is not.
	next, nextDigest := chunk(t, 1, 3)
	edit(in, configMap, func(c *corev1.ConfigMap) { c.Data[chunkKey(0)] = next })
	message := in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefInvalid)
	for _, want := range []string{"spec.papers[0].questionsFrom[0]", nextDigest, digest, "revision 1 stays served"} {
		check.Contains(t, message, want, "message")
	}
	in.until(content, v1alpha1.ConditionReconciling, "True", v1alpha1.ReasonProgressing)
	if got := in.servedPaper(key, key+"-2024"); len(got) != 2 {
		t.Errorf("served: %v", got)
	}

	// The other half.
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Papers[0].QuestionsFrom[0].Digest = nextDigest })
	in.ready(content)
	if got := in.servedPaper(key, key+"-2024"); len(got) != 3 || content.Status.Revision != 2 {
		t.Errorf("served: %v at revision %d", got, content.Status.Revision)
	}
}

func TestUnreadableChunkStallsAndNamesTheLine(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	configMap := chunkMap("questions", "[\n{\"number\": \"one\"}\n]")
	in.create(configMap)
	content := sampleContent("sample", key)
	content.Spec.Papers = []v1alpha1.Paper{chunkedPaper(key+"-2024", "questions", "")}
	in.create(content)
	message := in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefInvalid)
	if !strings.HasPrefix(message, "spec.papers[0].questionsFrom[0]: ConfigMap questions, key part-0.json: line 2: [0].") {
		t.Errorf("message %q", message)
	}
	in.until(content, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonRefInvalid)

	text, _ := chunk(t, 1, 2)
	edit(in, configMap, func(c *corev1.ConfigMap) { c.Data[chunkKey(0)] = text })
	in.ready(content)
}

func TestChunkWithAWrongAnswerIsRefusedByItsQuestion(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	text, _ := chunk(t, 1, 2)
	in.create(chunkMap("questions", strings.Replace(text, `"choice":"B"`, `"choice":"Z"`, 1)))
	content := sampleContent("sample", key)
	content.Spec.Papers = []v1alpha1.Paper{chunkedPaper(key+"-2024", "questions", "")}
	in.create(content)
	message := in.until(content, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalid)
	for _, want := range []string{"spec.papers[0].questionsFrom[0]", "question 1:1", "answer"} {
		check.Contains(t, message, want, "message")
	}
	in.until(content, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalid)
}

func TestCompressedChunkWithoutTheLabelIsPublishedWithAWarning(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	text, _ := chunk(t, 1, 2)
	raw := compress(t, text)
	configMap := &corev1.ConfigMap{BinaryData: map[string][]byte{chunkKey(0): raw}}
	configMap.Name = "questions"
	in.create(configMap)
	content := sampleContent("sample", key)
	content.Spec.Papers = []v1alpha1.Paper{chunkedPaper(key+"-2024", "questions", assemble.ChunkDigest(raw))}
	in.createReady(content)
	message := in.until(content, v1alpha1.ConditionResolvedRefs, "True", v1alpha1.ReasonResolved)
	check.Contains(t, message, "ConfigMap questions lacks label examprep.dev/content=true", "message")
}
