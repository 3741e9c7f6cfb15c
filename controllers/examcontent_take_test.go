package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

type liveReads struct {
	client.Reader

	contents int
}

func (l *liveReads) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*v1alpha1.ExamContent); ok {
		l.contents++
	}
	return l.Reader.Get(ctx, name, object, options...)
}

// lateCache is a cache that has not heard of anything since it saw one ExamContent.
type lateCache struct {
	client.Client

	seen *v1alpha1.ExamContent
}

func (c lateCache) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if content, ok := object.(*v1alpha1.ExamContent); ok {
		c.seen.DeepCopyInto(content)
	}
	return nil
}

func TestANewResourceIsPublishedWithoutBeingReadAgain(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	r := in.reconciler()
	live := &liveReads{Reader: r.live}
	r.live = live
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)}
	_, err := r.Reconcile(t.Context(), request)
	check.NoError(t, err)
	in.ready(content)
	if live.contents != 0 || !slices.Contains(content.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("%d reads, finalizers %v; want the finalizer's answer to be the resource", live.contents, content.Finalizers)
	}
	_, err = r.Reconcile(t.Context(), request)
	check.NoError(t, err)
	check.Equal(t, live.contents, 1, "reads after the second reconcile")
}

func TestWhatTheCacheHasNotHeardOfIsHeeded(t *testing.T) {
	t.Parallel()
	cases := map[string]func(in *installation, content *v1alpha1.ExamContent){
		"suspended": func(in *installation, content *v1alpha1.ExamContent) {
			edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true })
		},
		"deleted": func(in *installation, content *v1alpha1.ExamContent) { in.remove(content) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, postgres.Sandbox, 1)
			content := sampleContent("sample", sampleKey(t))
			in.create(content)
			r := in.reconciler()
			r.client = lateCache{r.client, content.DeepCopy()}
			change(in, content)
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)}
			_, err := r.Reconcile(t.Context(), request)
			check.NoError(t, err)
			if _, served := in.served(content.Spec.ExamKey); served {
				t.Error("published")
			}
			if name == "suspended" {
				in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
				if len(content.Finalizers) > 0 {
					t.Errorf("finalizers %v of what was never worked on", content.Finalizers)
				}
			}
		})
	}
}

func TestWhatIsNewIsKnownFromTheCache(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*v1alpha1.ExamContent)
		want   bool
	}{
		"made":      {func(*v1alpha1.ExamContent) {}, true},
		"had":       {func(c *v1alpha1.ExamContent) { c.Finalizers = []string{v1alpha1.Finalizer} }, false},
		"another's": {func(c *v1alpha1.ExamContent) { c.Finalizers = []string{"example.com/other"} }, true},
		"suspended": {func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true }, false},
		"deleted":   {func(c *v1alpha1.ExamContent) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
	}
	for name, c := range cases {
		content := sampleContent("sample", "xx-sample")
		c.change(content)
		transformed, err := examSkeleton(content)
		skeleton, ok := transformed.(*v1alpha1.ExamContent)
		if err != nil || !ok {
			t.Fatalf("%T: %v", transformed, err)
		}
		check.Equal(t, isNew(skeleton), c.want, "%s is new", name)
	}
}
