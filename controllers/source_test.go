package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/seals/sealstest"
	"examprep.dev/server/testkit/check"
)

// chunkReads is called for each ConfigMap that is read past the cache.
type chunkReads struct {
	client.Reader

	read func(name string)
}

func (c chunkReads) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.ConfigMap); ok {
		c.read(name.Name)
	}
	return c.Reader.Get(ctx, name, object, options...)
}

func (in *installation) chunkedExam() (*v1alpha1.ExamContent, *corev1.ConfigMap) {
	in.t.Helper()
	key := sampleKey(in.t)
	text, digest := chunk(in.t, 1, 2)
	configMap := chunkMap("questions", text)
	in.create(configMap)
	content := sampleContent("sample", key)
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper(key+"-2024", "questions", digest))
	in.create(content)
	return content, configMap
}

func TestQuestionsAreReadAgainOnlyWhereSomethingHasChanged(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	content, configMap := in.chunkedExam()
	r := in.reconciler()
	reads := 0
	r.live = chunkReads{r.live, func(string) { reads++ }}
	reconcile := func() (read int, writes, statements int64) {
		t.Helper()
		reads = 0
		in.writes.Store(0)
		in.statements.Store(0)
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)})
		check.NoError(t, err)
		in.ready(content)
		return reads, in.writes.Load(), in.statements.Load()
	}
	reconcile()

	for _, c := range in.reasonsToRead(t, content, configMap, r) {
		for range 2 {
			if read, writes, statements := reconcile(); read != 0 || writes != 0 || statements != 1 {
				t.Errorf("before %q: %d ConfigMaps read, %d writes and %d statements, want one statement alone", c.name, read, writes, statements)
			}
		}
		c.change()
		if read, writes, _ := reconcile(); read != 1 || writes != c.writes {
			t.Errorf("after %q: %d ConfigMaps read and %d writes, want 1 and %d", c.name, read, writes, c.writes)
		}
	}
	if n := in.wrongAnswers(); n != 0 || content.Status.Revision != 1 {
		t.Errorf("%d wrong answers, revision %d", n, content.Status.Revision)
	}
	if meta.FindStatusCondition(content.Status.Conditions, v1alpha1.ConditionRepaired) == nil {
		t.Error("the repair is told no more")
	}
}

// reasonToRead is a change after which questions are read again.
type reasonToRead struct {
	name   string
	change func()
	writes int64 // of the reconcile after it
}

func (in *installation) reasonsToRead(t *testing.T, content *v1alpha1.ExamContent, configMap *corev1.ConfigMap, r *ExamContentReconciler) []reasonToRead {
	t.Helper()
	trusted := catalog.NewPublisher(in.pool, postgres.Sandbox).Trusting(sealstest.Trust(t, sealstest.New(t).Line("*")))
	return []reasonToRead{
		{"another version of a ConfigMap, with the same chunks", func() {
			edit(in, configMap, func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"note": "touched"} })
		}, 1},
		{"a field that is no content", func() {
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.ResyncInterval = &metav1.Duration{Duration: time.Hour} })
		}, 1},
		{"a request", func() {
			edit(in, content, func(c *v1alpha1.ExamContent) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.ReconcileRequestAnnotation, "now")
			})
		}, 1},
		{"whose seals count", func() { r.publisher = trusted }, 1},
		{"the list of papers in the status", func() {
			in.editStatus(content, func(status *v1alpha1.ExamContentStatus) { status.Papers[0].QuestionCount++ })
		}, 1},
		{"a condition that is gone", func() {
			in.editStatus(content, func(status *v1alpha1.ExamContentStatus) {
				meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionResolvedRefs)
			})
		}, 1},
		{"a condition that is no longer True", func() {
			in.editStatus(content, func(status *v1alpha1.ExamContentStatus) {
				meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPublished).Status = metav1.ConditionFalse
			})
		}, 1},
		{"nothing, but it is time to look at everything", func() {
			r.fullCheck = func() bool { r.fullCheck = func() bool { return false }; return true }
		}, 0},
		{"an answer in the database", func() { in.tamper(wrongAnswer) }, 1},
		{"the exam's owner in the database", func() { in.tamper(`UPDATE exams SET claim_cluster = NULL, claim_namespace = NULL, claim_name = NULL`) }, 0},
		{"the ConfigMap in the place of one that was deleted", func() {
			in.remove(configMap)
			again := chunkMap(configMap.Name)
			again.Data = configMap.Data
			in.create(again)
		}, 1},
	}
}

func (in *installation) editStatus(content *v1alpha1.ExamContent, change func(*v1alpha1.ExamContentStatus)) {
	in.t.Helper()
	in.ready(content)
	change(&content.Status)
	check.NoError(in.t, in.kube.Status().Update(in.t.Context(), content))
}

func TestWhatNobodyTellsOfIsReadEachTime(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	content, configMap := in.chunkedExam()
	edit(in, configMap, func(c *corev1.ConfigMap) { c.Labels = nil })
	r := in.reconciler()
	reads := 0
	r.live = chunkReads{r.live, func(string) { reads++ }}
	for want := 1; want <= 3; want++ {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)})
		check.NoError(t, err)
		in.ready(content)
		if reads != want || content.Status.SourceDigest != "" {
			t.Errorf("reconcile %d: %d reads, source %q", want, reads, content.Status.SourceDigest)
		}
	}
}

func TestChunksOfTwoMomentsAreReadAgain(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	key := sampleKey(t)
	text, _ := chunk(t, 1, 2)
	for _, name := range []string{"first", "second"} {
		in.create(chunkMap(name, text))
	}
	content := sampleContent("sample", key)
	for i, name := range []string{"first", "second", "first"} {
		content.Spec.Papers = append(content.Spec.Papers, chunkedPaper(key+"-"+string(rune('a'+i)), name, ""))
	}
	in.create(content)
	r := in.reconciler()
	inner, changed := r.live, false
	r.live = chunkReads{inner, func(name string) {
		if name == "second" && !changed {
			changed = true
			first := chunkMap("first", text)
			first.Namespace = in.space()
			edit(in, first, func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"note": "touched"} })
		}
	}}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)}
	for _, settled := range []bool{false, true} {
		_, err := r.Reconcile(t.Context(), request)
		check.NoError(t, err)
		in.ready(content)
		check.Equal(t, content.Status.SourceDigest != "", settled, "is there a source; it is %q", content.Status.SourceDigest)
	}
}

func TestASourceIsAnotherWithEachOfItsParts(t *testing.T) {
	t.Parallel()
	content := sampleContent("sample", "xx-sample")
	content.UID, content.Generation = "uid", 1
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper("xx-sample-2024", "questions", ""))
	versions := map[string]version{"questions": {"a", "1"}, "unnamed": {"b", "1"}}
	digest := func(change func(*v1alpha1.ExamContent), trust string, versions map[string]version) string {
		changed := content.DeepCopy()
		change(changed)
		return sourceDigest(changed, trust, versions)
	}
	same := func(*v1alpha1.ExamContent) {}
	first := digest(same, "sandbox", versions)
	if again := digest(func(c *v1alpha1.ExamContent) { c.Annotations = map[string]string{"a": "b"} }, "sandbox",
		map[string]version{"questions": {"a", "1"}}); again != first {
		t.Error("it changes with what no exam is made of")
	}
	for name, other := range map[string]string{
		"resource":            digest(func(c *v1alpha1.ExamContent) { c.UID = "other" }, "sandbox", versions),
		"spec":                digest(func(c *v1alpha1.ExamContent) { c.Generation = 2 }, "sandbox", versions),
		"trust":               digest(same, "production", versions),
		"ConfigMap":           digest(same, "sandbox", map[string]version{"questions": {"c", "1"}}),
		"ConfigMap's state":   digest(same, "sandbox", map[string]version{"questions": {"a", "2"}}),
		"ConfigMap's absence": digest(same, "sandbox", nil),
	} {
		if other == first {
			t.Errorf("another %s makes the same source", name)
		}
	}
}
