package controllers

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

// TestAnOperatorOfListedNamespacesNeedsNoClusterWideRole gives the operator's rules as Roles in two namespaces. The operator
// reconciles the resources in them and no others.
func TestAnOperatorOfListedNamespacesNeedsNoClusterWideRole(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	user := "operator-of-" + in.space()
	rules := clustertest.Rules(t, "role.yaml")
	for _, space := range in.spaces {
		clustertest.Grant(t, in.kube, space, user, rules)
	}
	in.config = clustertest.As(clustertest.Config(t), user)
	elsewhere := clustertest.Namespace(t)
	for _, resource := range []string{"examcontents.examprep.dev", "configmaps", "secrets"} {
		if clustertest.CanI(t, in.config, "", "get", resource) || clustertest.CanI(t, in.config, elsewhere, "get", resource) {
			t.Fatalf("the operator may get %s beyond its namespaces", resource)
		}
	}
	in.deps.RestrictWebhookAccounts = true // reads its namespaces
	in.allow(v1alpha1.AllAccounts)
	in.operate()

	text, digest := chunk(t, 1, 3)
	inFirst, inSecond := sampleContent("first", sampleKey(t)+"-1"), sampleContent("second", sampleKey(t)+"-2")
	inFirst.Spec.Papers = append(inFirst.Spec.Papers, chunkedPaper(inFirst.Spec.ExamKey+"-2024", "questions", digest))
	inSecond.Namespace = in.spaces[1]
	outside := sampleContent("outside", sampleKey(t)+"-3")
	outside.Namespace = elsewhere
	endpoint, tier := sampleEndpoint("https://hooks.example.com/"), sampleTier("gold", 600)
	endpoint.Spec.Events = append(endpoint.Spec.Events, "mock_attempt.scored")
	for _, object := range []client.Object{outside, inFirst, inSecond, endpoint, tier} {
		in.create(object)
	}
	in.until(inFirst, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
	in.create(chunkMap("questions", text))
	for _, object := range []client.Object{inFirst, inSecond, endpoint, tier} {
		in.ready(object)
	}
	for _, object := range []client.Object{inFirst, inSecond, endpoint, tier} {
		in.delete(object)
	}
	check.NoError(t, in.kube.Get(t.Context(), client.ObjectKeyFromObject(outside), outside))
	if len(outside.Status.Conditions) > 0 || len(outside.Finalizers) > 0 {
		t.Errorf("touched outside its namespaces: %+v", outside)
	}
}

// aggregated collects the rules that the cluster's own role takes over: the API server of tests runs no controller that
// does so.
func aggregated(t *testing.T, kube client.Client, name string, ours map[string][]rbacv1.PolicyRule, labelsOf map[string]labels.Set) []rbacv1.PolicyRule {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	check.NoError(t, kube.Get(t.Context(), client.ObjectKey{Name: name}, role))
	rules := slices.Clone(role.Rules)
	for file, set := range labelsOf {
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			parsed, err := metav1.LabelSelectorAsSelector(&selector)
			check.NoError(t, err)
			if parsed.Matches(set) {
				rules = append(rules, ours[file]...)
			}
		}
	}
	return rules
}

// TestRolesAggregateToViewEditAndAdmin: a user with view, edit or admin in a namespace has the aggregated rights there, and
// none in other namespaces.
func TestRolesAggregateToViewEditAndAdmin(t *testing.T) {
	t.Parallel()
	kube, space, elsewhere := clustertest.Client(t), clustertest.Namespace(t), clustertest.Namespace(t)
	rules, sets := map[string][]rbacv1.PolicyRule{}, map[string]labels.Set{}
	for _, file := range []string{"author_role.yaml", "viewer_role.yaml", "webhook_author_role.yaml"} {
		rules[file], sets[file] = clustertest.Rules(t, file), clustertest.Labels(t, file)
	}
	const exams, endpoints, tiers = "examcontents.examprep.dev", "webhookendpoints.examprep.dev", "ratetiers.examprep.dev"
	reading, writing := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete", "deletecollection"}
	all := slices.Concat(reading, writing)
	// editors and admins of a namespace hold the viewers' rules too: the cluster aggregates view to edit to admin
	view := aggregated(t, kube, "view", rules, sets)
	edit := slices.Concat(view, aggregated(t, kube, "edit", rules, sets))
	admin := slices.Concat(edit, aggregated(t, kube, "admin", rules, sets))
	for _, c := range []struct {
		who   string
		rules []rbacv1.PolicyRule
		may   map[string][]string
	}{
		{"nobody", nil, nil},
		{"viewer", view, map[string][]string{exams: reading, endpoints: reading, tiers: reading}},
		{"editor", edit, map[string][]string{exams: all, endpoints: reading, tiers: reading}},
		{"admin", admin, map[string][]string{exams: all, endpoints: reading, tiers: reading}},
		{"webhook-author", rules["webhook_author_role.yaml"], map[string][]string{endpoints: all}},
	} {
		user := c.who + "-of-" + space
		if c.rules != nil {
			clustertest.Grant(t, kube, space, user, c.rules)
		}
		config := clustertest.As(clustertest.Config(t), user)
		for _, resource := range []string{exams, endpoints, tiers} {
			for _, verb := range all {
				check.Equal(t, clustertest.CanI(t, config, space, verb, resource), slices.Contains(c.may[resource], verb), "%s may %s %s", c.who, verb, resource)
				if clustertest.CanI(t, config, elsewhere, verb, resource) {
					t.Errorf("%s may %s %s of another namespace", c.who, verb, resource)
				}
			}
			if clustertest.CanI(t, config, space, "patch", resource+"/status") {
				t.Errorf("%s may write the status of %s", c.who, resource)
			}
		}
		if clustertest.CanI(t, config, space, "patch", "namespaces") {
			t.Errorf("%s may say which accounts the namespace hears of", c.who)
		}
	}
}
