package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
)

// edit makes random edits, each to a resource of this editor's own, as fast as the API server takes them. A failed
// edit is not repeated, because it can have succeeded. The end is compared with the resources at that time.
func (c *chaos) edit(ctx context.Context, editor int) {
	chance := c.random(editor)
	for ctx.Err() == nil {
		i := chance.IntN(c.resources)
		if i%editors != editor {
			continue
		}
		c.change(ctx, chance, i)
		pause(ctx, time.Duration(chance.Int64N(int64(40*time.Millisecond))))
	}
}

func (c *chaos) createAll() {
	var wait sync.WaitGroup
	for editor := range editors {
		wait.Go(func() {
			chance := c.random(editors + editor)
			for i := editor; i < c.resources; i += editors {
				if err := c.create(c.t.Context(), chance, i); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func (c *chaos) attempt(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
		pause(ctx, 100*time.Millisecond)
		return
	}
	c.note(c.done, what)
}

func (c *chaos) create(ctx context.Context, chance *rand.Rand, i int) error {
	space, name, key := c.name(i)
	content := sampleContent(name, key)
	content.Namespace = space
	content.Spec.Name = fmt.Sprintf("%s by %s, %x", key, name, chance.Uint32())
	if chance.IntN(2) == 0 {
		content.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	}
	if i%4 == 1 {
		paper := chunkedPaper(key+"-2024", "chunks-"+name, "")
		content.Spec.Papers = append(content.Spec.Papers, paper)
		if err := c.rechunk(ctx, chance, content); err != nil {
			return err
		}
	}
	if err := c.sealAll(ctx, content); err != nil {
		return err
	}
	return c.kube.Create(ctx, content)
}

// rechunk writes another chunk; content refers to it by its digest, the resource on the server does not yet.
func (c *chaos) rechunk(ctx context.Context, chance *rand.Rand, content *v1alpha1.ExamContent) error {
	questions := []v1alpha1.Question{sampleQuestion(1), sampleQuestion(2), sampleQuestion(3)}
	questions[chance.IntN(3)].Prompt = fmt.Sprintf("Chunked %x?", chance.Uint32())
	raw, err := json.Marshal(questions)
	if err != nil {
		return err
	}
	configMap := chunkMap("chunks-"+content.Name, string(raw))
	configMap.Namespace = content.Namespace
	content.Spec.Papers[1].QuestionsFrom[0].Digest = assemble.ChunkDigest(raw)
	old := &corev1.ConfigMap{}
	err = c.kube.Get(ctx, client.ObjectKeyFromObject(configMap), old)
	if apierrors.IsNotFound(err) {
		return c.kube.Create(ctx, configMap)
	}
	if err != nil {
		return err
	}
	old.Data = configMap.Data
	return c.kube.Update(ctx, old)
}

func (c *chaos) sealAll(ctx context.Context, content *v1alpha1.ExamContent) error {
	valid, err := assemble.Assemble(ctx, content, &liveChunks{live: c.kube})
	if err != nil {
		return err
	}
	exam := valid.Exam()
	for i := range exam.Papers {
		digest, err := exam.Papers[i].SealDigest()
		if err != nil {
			return err
		}
		content.Spec.Papers[i].Verification = &v1alpha1.Verification{By: "A. Reviewer", At: "2026-01-31", Digest: digest.String()}
	}
	return nil
}

// change makes one random edit of a resource, or creates the resource if it does not exist.
func (c *chaos) change(ctx context.Context, chance *rand.Rand, i int) {
	space, name, _ := c.name(i)
	content := &v1alpha1.ExamContent{}
	err := c.kube.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, content)
	if apierrors.IsNotFound(err) {
		c.attempt(ctx, "create", func(ctx context.Context) error { return c.create(ctx, chance, i) })
		return
	}
	if err != nil {
		c.attempt(ctx, "", func(context.Context) error { return err })
		return
	}
	what, edit := c.choose(chance)
	c.attempt(ctx, what, func(ctx context.Context) error {
		if edit == nil {
			return c.kube.Delete(ctx, content)
		}
		if err := edit(ctx, chance, content); err != nil {
			return err
		}
		return c.kube.Update(ctx, content)
	})
}

type resourceEdit func(context.Context, *rand.Rand, *v1alpha1.ExamContent) error

// choose draws an edit; nil is a deletion. Repairs are as frequent as damage; otherwise all exams would be invalid in the end.
func (c *chaos) choose(chance *rand.Rand) (string, resourceEdit) {
	simple := func(change func(*v1alpha1.ExamContentSpec)) resourceEdit {
		return func(_ context.Context, _ *rand.Rand, content *v1alpha1.ExamContent) error {
			change(&content.Spec)
			return nil
		}
	}
	edits := []struct {
		weight int
		what   string
		edit   resourceEdit
	}{
		{20, "rename", simple(func(s *v1alpha1.ExamContentSpec) { s.Name = fmt.Sprintf("%s renamed %x", s.ExamKey, chance.Uint32()) })},
		{20, "change and seal", c.changeAndSeal},
		{8, "break a seal", simple(func(s *v1alpha1.ExamContentSpec) {
			s.Papers[0].Questions[0].Answer.Choice = []string{"A", "C"}[chance.IntN(2)]
		})},
		{8, "invalid", simple(func(s *v1alpha1.ExamContentSpec) {
			s.Papers[0].Questions = append(s.Papers[0].Questions, sampleQuestion(1))
		})},
		{30, "mend", c.mend},
		{6, "half a chunk", c.halfAChunk},
		{4, "drop a ConfigMap", c.dropChunks},
		{5, "pin", simple(func(s *v1alpha1.ExamContentSpec) { s.Revision = new(chance.Int64N(4) + 1) })},
		{5, "suspend", simple(func(s *v1alpha1.ExamContentSpec) { s.Suspend = true })},
	}
	total := 8 // the deletions
	for _, e := range edits {
		total += e.weight
	}
	drawn := chance.IntN(total)
	for _, e := range edits {
		if drawn -= e.weight; drawn < 0 {
			return e.what, e.edit
		}
	}
	return "delete", nil
}

func (c *chaos) changeAndSeal(ctx context.Context, chance *rand.Rand, content *v1alpha1.ExamContent) error {
	content.Spec.Papers[0].Questions[0].Prompt = fmt.Sprintf("Prompt %x?", chance.Uint32())
	content.Spec.Papers[0].Questions[0].Answer.Choice = []string{"A", "B", "C"}[chance.IntN(3)]
	return c.sealAll(ctx, content)
}

func (c *chaos) mend(ctx context.Context, chance *rand.Rand, content *v1alpha1.ExamContent) error {
	content.Spec.Revision, content.Spec.Suspend = nil, false
	content.Spec.Papers[0].Questions = content.Spec.Papers[0].Questions[:2]
	if len(content.Spec.Papers) > 1 {
		if err := c.rechunk(ctx, chance, content); err != nil {
			return err
		}
	}
	return c.sealAll(ctx, content)
}

// halfAChunk changes the ConfigMap alone: the resource keeps the old digest.
func (c *chaos) halfAChunk(ctx context.Context, chance *rand.Rand, content *v1alpha1.ExamContent) error {
	if len(content.Spec.Papers) < 2 {
		return nil
	}
	return c.rechunk(ctx, chance, content.DeepCopy())
}

func (c *chaos) dropChunks(ctx context.Context, _ *rand.Rand, content *v1alpha1.ExamContent) error {
	configMap := chunkMap("chunks-" + content.Name)
	configMap.Namespace = content.Namespace
	return client.IgnoreNotFound(c.kube.Delete(ctx, configMap))
}
