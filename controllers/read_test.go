package controllers

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
)

// otherServersCache knows of each object a version that the API server asked has not heard of: it was filled by another
// one, of several.
type otherServersCache struct {
	client.Client

	version string
}

// Get implements client.Client.
func (c otherServersCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, object, opts...)
	object.SetResourceVersion(c.version)
	return err
}

func TestAResourceIsReadWhereItsVersionIsNotKnownYet(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	content := sampleContent("far-away", sampleKey(t))
	in.create(content)
	const unheardOf = "9000000000000000000"
	f := &frame{client: otherServersCache{in.kube, unheardOf}, live: in.kube, ready: newReadiness(nil)}
	name, read := client.ObjectKeyFromObject(content), &v1alpha1.ExamContent{}
	if err := in.kube.Get(t.Context(), name, read, f.notOlder(t.Context(), name, read)); !isTooNew(err) {
		t.Errorf("a version that was not heard of: %v", err)
	}
	found, err := f.read(t.Context(), name, read)
	if !found || err != nil || read.ResourceVersion != content.ResourceVersion || read.Spec.ExamKey != content.Spec.ExamKey {
		t.Errorf("found: %t, %v; version %s, want %s", found, err, read.ResourceVersion, content.ResourceVersion)
	}
}
