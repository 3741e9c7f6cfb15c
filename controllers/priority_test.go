package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
)

func TestUnhandledResourcesComeBeforeTenThousandRefreshes(t *testing.T) {
	t.Parallel()
	const refreshes = 10_000
	deleted := metav1.Now()
	urgent := map[string]struct {
		change func(*v1alpha1.ExamContent)
		listed bool
	}{
		"made-before-the-start":    {func(c *v1alpha1.ExamContent) { c.Status.ObservedGeneration = 0 }, true},
		"changed-before-the-start": {func(c *v1alpha1.ExamContent) { c.Generation = 2 }, true},
		"deleted-before-the-start": {func(c *v1alpha1.ExamContent) { c.DeletionTimestamp = &deleted }, true},
		"requested-before-the-start": {func(c *v1alpha1.ExamContent) {
			c.Annotations = map[string]string{v1alpha1.ReconcileRequestAnnotation: "now"}
		}, true},
		"made-later": {func(*v1alpha1.ExamContent) {}, false},
	}
	queue := priorityqueue.New[reconcile.Request](t.Name())
	defer queue.ShutDown()
	handling := &unhandledFirst{}
	for i := range refreshes {
		handling.Create(t.Context(), event.CreateEvent{Object: handledContent(fmt.Sprintf("refresh-%05d", i)), IsInInitialList: true}, queue)
	}
	for name, c := range urgent {
		content := handledContent(name)
		c.change(content)
		object, err := examSkeleton(content) // all that the handler ever sees
		check.NoError(t, err)
		skeleton, ok := object.(*v1alpha1.ExamContent)
		if !ok {
			t.Fatalf("%T", object)
		}
		handling.Create(t.Context(), event.CreateEvent{Object: skeleton, IsInInitialList: c.listed}, queue)
	}

	for range urgent {
		first, _ := queue.Get()
		if _, ok := urgent[first.Name]; !ok {
			t.Errorf("%s came before what nobody has acted on", first.Name)
		}
	}
	check.Equal(t, queue.Len(), refreshes, "refreshes left in the queue")
}

// handledContent returns a resource with a current status.
func handledContent(name string) *v1alpha1.ExamContent {
	content := sampleContent(name, name)
	content.Generation, content.Status.ObservedGeneration = 1, 1
	return content
}

type turns struct {
	Publisher

	mu    sync.Mutex
	names []string
}

func (p *turns) Publish(ctx context.Context, claim catalog.Claim, exam catalog.ValidExam, options catalog.Options) (catalog.Publication, error) {
	p.note(claim)
	return p.Publisher.Publish(ctx, claim, exam, options)
}

func (p *turns) Standing(ctx context.Context, claim catalog.Claim, examKey string) (catalog.Publication, bool, error) {
	p.note(claim)
	return p.Publisher.Standing(ctx, claim, examKey)
}

func (p *turns) note(claim catalog.Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, claim.Name)
}

func TestAResourceMadeWhileNoOperatorRanIsPublishedBeforeTheOthersAreRefreshed(t *testing.T) {
	t.Parallel()
	in := operating(t)
	key := sampleKey(t)
	var old []*v1alpha1.ExamContent
	for i := range 10 {
		content := sampleContent(fmt.Sprintf("old-%d", i), fmt.Sprintf("%s-%d", key, i))
		in.create(content)
		old = append(old, content)
	}
	for _, content := range old {
		in.ready(content)
	}
	in.stop()
	made := sampleContent("young", key+"-young") // a list has it last
	in.create(made)

	order := &turns{Publisher: in.deps.Publisher}
	in.deps.Publisher, in.options.Concurrency = order, 1
	in.operate()
	in.ready(made)
	in.eventually("refresh the others", func() (bool, string) {
		order.mu.Lock()
		defer order.mu.Unlock()
		return len(order.names) > len(old), fmt.Sprint(order.names)
	})
	order.mu.Lock()
	defer order.mu.Unlock()
	check.Equal(t, slices.Index(order.names, made.Name), 0, "place in the order of publishing, %v", order.names)
}
