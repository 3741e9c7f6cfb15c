package controllers

import (
	"context"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestTheCacheHoldsNoQuestions(t *testing.T) {
	t.Parallel()
	content := sampleContent("sample", "xx-sample")
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper("xx-sample-2024", "questions", ""))
	content.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "git"}}
	content.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: "all of it again", v1alpha1.ReconcileRequestAnnotation: "now",
	}
	transformed, err := examSkeleton(content)
	check.NoError(t, err)
	skeleton, ok := transformed.(*v1alpha1.ExamContent)
	if !ok {
		t.Fatalf("%T", transformed)
	}
	for _, paper := range skeleton.Spec.Papers {
		if len(paper.Questions) > 0 {
			t.Error("questions are cached")
		}
	}
	if len(skeleton.ManagedFields) > 0 || skeleton.Annotations[corev1.LastAppliedConfigAnnotation] != "" || skeleton.Spec.Scoring != nil {
		t.Errorf("more is cached than indexes need: %+v", skeleton)
	}
	if got := configMapsOf(skeleton); len(got) != 1 || got[0] != "questions" {
		t.Errorf("ConfigMaps: %v", got)
	}
	if got := examKeyOf(skeleton); len(got) != 1 || got[0] != "xx-sample" {
		t.Errorf("exam key: %v", got)
	}
	check.Equal(t, skeleton.Annotations[v1alpha1.ReconcileRequestAnnotation], "now", "a request to reconcile would not be seen")
}

// TestTheCacheHoldsNoChunks asks for what a running operator has of a ConfigMap that was applied from the client's side.
func TestTheCacheHoldsNoChunks(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	text, _ := chunk(t, 1, 2)
	configMap := chunkMap("questions", text)
	configMap.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: text}
	in.create(configMap)
	options := in.options
	options.WatchNamespaces, options.AllowSameNames = in.spaces, true
	manager, err := NewManager(in.countedConfig(), options)
	check.NoError(t, err)
	stop := testkit.Run(t, func(ctx context.Context) error { return manager.GetCache().Start(ctx) })
	if !manager.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	check.NoError(t, manager.GetCache().Get(t.Context(), client.ObjectKeyFromObject(configMap), cached))
	want := metav1.ObjectMeta{
		Name: configMap.Name, Namespace: configMap.Namespace, UID: configMap.UID, ResourceVersion: configMap.ResourceVersion,
	}
	if !reflect.DeepEqual(cached.ObjectMeta, want) {
		t.Errorf("cached: %+v, want %+v", cached.ObjectMeta, want)
	}
	stop()
}

func TestLeaderElectionHasTheTimesOfProductionUnlessOthersAreSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options                Options
		duration, renew, retry time.Duration
	}{
		{Options{}, 15 * time.Second, 10 * time.Second, 2 * time.Second},
		{Options{LeaseDuration: 3 * time.Hour, LeaseRenew: 2 * time.Hour, LeaseRetry: time.Hour}, 3 * time.Hour, 2 * time.Hour, time.Hour},
	} {
		got := c.options.manager(nil)
		check.Equal(t, *got.LeaseDuration, c.duration, "duration of a lease")
		check.Equal(t, *got.RenewDeadline, c.renew, "limit of a renewal")
		check.Equal(t, *got.RetryPeriod, c.retry, "pause between two tries")
	}
}

func TestOperatorHasTheTimesOfProductionUnlessOthersAreSet(t *testing.T) {
	t.Parallel()
	production, others := Deps{}.withTimes(), Deps{HealthInterval: time.Hour, StatusTimeout: 2 * time.Hour}.withTimes()
	check.Equal(t, production.HealthInterval, time.Minute, "interval of looks at an endpoint")
	check.Equal(t, production.StatusTimeout, 15*time.Second, "limit of a status write")
	if production.StatusTimeout+reconcileTimeout >= handoverLook*9/10 {
		t.Error("a resource that changes hands is looked at again before its former operator must have ended")
	}
	check.Equal(t, others.HealthInterval, time.Hour, "interval of looks at an endpoint")
	check.Equal(t, others.StatusTimeout, 2*time.Hour, "limit of a status write")
}

func TestStandbyTakesOverWhenTheLeaderStops(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	in.grantLease()
	in.options.LeaderElection, in.options.LeaderElectionNamespace = true, in.space()
	in.operate()
	stopLeader := in.stop
	first := sampleContent("first", sampleKey(t)+"-1")
	in.createReady(first)

	in.operate() // a second one, on standby
	stopLeader()
	second := sampleContent("second", sampleKey(t)+"-2")
	in.createReady(second)
}

func (in *installation) grantLease() {
	in.t.Helper()
	text := testkit.ReadFile(in.t, "../config/rbac/leader_election_role.yaml")
	role := &rbacv1.Role{}
	check.NoError(in.t, yaml.UnmarshalStrict(text, role))
	in.create(role)
	binding := &rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: in.countedConfig().Impersonate.UserName}},
	}
	binding.Name = role.Name
	in.create(binding)
}
