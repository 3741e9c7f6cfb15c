package controllers

import (
	"testing"

	"examprep.dev/api/v1alpha1"
)

func TestDeletionPolicy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy v1alpha1.DeletionPolicy
		served bool
	}{
		{policy: v1alpha1.DeletionRetain, served: true},
		{policy: "", served: true}, // the default
		{policy: v1alpha1.DeletionDelete, served: false},
	} {
		t.Run("policy "+string(test.policy), func(t *testing.T) {
			t.Parallel()
			in := operating(t)
			content := sampleContent("sample", sampleKey(t))
			content.Spec.DeletionPolicy = test.policy
			in.createReady(content)
			in.delete(content)
			if _, ok := in.served(content.Spec.ExamKey); ok != test.served {
				t.Errorf("served after the deletion: %v, want %v", ok, test.served)
			}

			// The key is free again: a resource of another name may have it.
			heir := sampleContent("heir", content.Spec.ExamKey)
			heir.Spec.Name = "Heir"
			in.createReady(heir)
			in.serves(content.Spec.ExamKey, "Heir", "now")
		})
	}
}

func TestDeletionNeedsNoConfigMaps(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	text, digest := chunk(t, 1, 2)
	configMap := chunkMap("questions", text)
	in.create(configMap)
	content := sampleContent("sample", key)
	content.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	content.Spec.Papers = []v1alpha1.Paper{chunkedPaper(key+"-2024", "questions", digest)}
	in.createReady(content)
	in.remove(configMap)
	in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
	in.delete(content)
	if _, ok := in.served(key); ok {
		t.Error("still served")
	}
}
