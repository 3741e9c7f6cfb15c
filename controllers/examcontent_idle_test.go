package controllers

import (
	"testing"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/server/postgres"
)

// reconciler is an ExamContentReconciler whose calls a test makes itself.
func (in *installation) reconciler() *ExamContentReconciler {
	config := in.countedConfig()
	scheme, err := NewScheme()
	if err != nil {
		in.t.Fatal(err)
	}
	counted, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		in.t.Fatal(err)
	}
	return &ExamContentReconciler{
		frame: frame{
			client: counted, live: counted, recorder: events.NewFakeRecorder(100), now: in.deps.clock(), cluster: in.deps.ClusterName,
			ready: newReadiness(nil),
		},
		publisher: in.deps.Publisher,
		lookWhole: func() bool { return false },
	}
}

func TestReconcileWithoutAChangeWritesNothing(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	key := sampleKey(t)
	text, digest := chunk(t, 1, 2)
	in.create(chunkMap("questions", text))
	content := sampleContent("sample", key)
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper(key+"-2024", "questions", digest))
	in.create(content)
	r := in.reconciler()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	in.ready(content)
	standing := content.ResourceVersion
	if writes := in.writes.Load(); writes != 2 {
		t.Errorf("the first reconcile wrote %d times, want 2: finalizer and status", writes)
	}

	for range 3 {
		in.writes.Store(0)
		in.statements.Store(0)
		result, err := r.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if writes, statements := in.writes.Load(), in.statements.Load(); writes != 0 || statements > 1 {
			t.Errorf("%d writes to the API server and %d statements, want 0 and at most 1", writes, statements)
		}
		resync := content.Spec.ResyncInterval.Duration // the schema's default
		if result.RequeueAfter > resync || result.RequeueAfter < resync/2 || result.Priority == nil || *result.Priority >= 0 {
			t.Errorf("next reconcile: %+v, want it within the resync interval at low priority", result)
		}
	}
	in.ready(content)
	if content.ResourceVersion != standing {
		t.Error("the resource was written")
	}
}

func TestReconcileOnRequestWritesOnceAndSettles(t *testing.T) {
	t.Parallel()
	in := operating(t)
	content := sampleContent("sample", sampleKey(t))
	in.create(content)
	in.ready(content)
	in.reconcileNow(content, "first")
	in.writes.Store(0)
	in.reconcileNow(content, "second")
	standing := content.ResourceVersion
	// A resource that is made now and is Ready has been through the same queue: what the request caused is over.
	other := sampleContent("other", sampleKey(t)+"-other")
	in.create(other)
	in.ready(other)
	if writes := in.writes.Load(); writes != 3 {
		t.Errorf("%d writes, want 3: one for the request, two for the new resource", writes)
	}
	in.ready(content)
	if content.ResourceVersion != standing {
		t.Error("the resource was written after it had settled")
	}
}
