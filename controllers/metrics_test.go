package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func unready(t *testing.T, registry *prometheus.Registry) (told []string) {
	t.Helper()
	for _, metric := range testkit.Series(t, registry)["examprep_operator_not_ready_since_timestamp_seconds"] {
		labels := testkit.Labels(metric)
		told = append(told, labels["kind"]+" "+labels["name"]+" "+labels["reason"])
	}
	slices.Sort(told)
	return told
}

// unreadyOfEachKind makes a resource of each kind that cannot become Ready.
func (in *installation) unreadyOfEachKind() []client.Object {
	in.t.Helper()
	taken := keys.TierSpec{Name: "gold", Requests: 1, Period: time.Minute, ManagedBy: "test/elsewhere/gold"}
	check.NoError(in.t, in.deps.Tiers.ApplyTier(in.t.Context(), taken))
	content, endpoint, tier := sampleContent("exam", sampleKey(in.t)), sampleEndpoint("https://10.0.0.1/"), sampleTier("gold", 600)
	breakContent(content)
	endpoint.Name = "endpoint"
	objects := []client.Object{content, endpoint, tier}
	for _, object := range objects {
		in.create(labelled(object, "a"))
	}
	return objects
}

// TestReleasedResourceLeavesTheReadinessMetric releases a resource without a last reconcile: by another shard's label, or by
// a deletion after its finalizer was removed.
func TestReleasedResourceLeavesTheReadinessMetric(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(in *installation, object client.Object){
		"to another shard": func(in *installation, object client.Object) {
			edit(in, object, func(o client.Object) { labelled(o, "b") })
		},
		"without the finalizer": func(in *installation, object client.Object) {
			edit(in, object, func(o client.Object) { o.SetFinalizers(nil) })
			in.delete(object)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, postgres.Sandbox, 1)
			registry := prometheus.NewRegistry()
			in.deps.Registerer = registry
			in.operateShard("a", v1alpha1.ShardLabel+"=a", nil)
			objects := in.unreadyOfEachKind()
			want := []string{"ExamContent exam Invalid", "RateTier gold NameConflict", "WebhookEndpoint endpoint Invalid"}
			in.eventually("be told of", func() (bool, string) {
				told := unready(t, registry)
				return slices.Equal(told, want), strings.Join(told, ", ")
			})
			for _, object := range objects {
				leave(in, object)
			}
			in.eventually("be told of no more", func() (bool, string) {
				told := unready(t, registry)
				return len(told) == 0, fmt.Sprint(told)
			})
		})
	}
}
