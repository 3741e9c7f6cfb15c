package controllers

import (
	"testing"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// reconciler is an ExamContentReconciler whose calls a test makes itself.
func (in *installation) reconciler() *ExamContentReconciler {
	config := in.countedConfig()
	scheme, err := NewScheme()
	check.NoError(in.t, err)
	counted, err := client.New(config, client.Options{Scheme: scheme})
	check.NoError(in.t, err)
	return &ExamContentReconciler{
		frame: frame{
			client: counted, live: counted, recorder: events.NewFakeRecorder(100), now: in.deps.clock(), cluster: in.deps.ClusterName,
			status: testkit.Patience, ready: newReadiness(nil),
		},
		publisher: in.deps.Publisher,
		fullCheck: func() bool { return false },
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
	_, err := r.Reconcile(t.Context(), request)
	check.NoError(t, err)
	in.ready(content)
	standing := content.ResourceVersion
	check.Equal(t, in.writes.Load(), 2, "writes of the first reconcile, which are finalizer and status")

	for range 3 {
		in.writes.Store(0)
		in.statements.Store(0)
		result, err := r.Reconcile(t.Context(), request)
		check.NoError(t, err)
		if writes, statements := in.writes.Load(), in.statements.Load(); writes != 0 || statements > 1 {
			t.Errorf("%d writes to the API server and %d statements, want 0 and at most 1", writes, statements)
		}
		resync := content.Spec.ResyncInterval.Duration // the schema's default
		if result.RequeueAfter > resync || result.RequeueAfter < resync/2 || result.Priority == nil || *result.Priority >= 0 {
			t.Errorf("next reconcile: %+v, want it within the resync interval at low priority", result)
		}
	}
	in.ready(content)
	check.Equal(t, content.ResourceVersion, standing, "the resource was written; its version")
}

func TestReconcileOnRequestWritesOnceAndSettles(t *testing.T) {
	t.Parallel()
	in, content := publishing(t)
	in.reconcileNow(content, "first")
	in.writes.Store(0)
	in.reconcileNow(content, "second")
	standing := content.ResourceVersion
	// A new resource that is Ready has passed the same queue, so the work of the request has ended.
	other := sampleContent("other", sampleKey(t)+"-other")
	in.createReady(other)
	check.Equal(t, in.writes.Load(), 3, "writes, one for the request and two for the new resource")
	in.ready(content)
	check.Equal(t, content.ResourceVersion, standing, "the resource was written after it had settled; its version")
}
