package controllers

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// auditPolicy logs the user and the resource of each request, without bodies.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// serviceAccount is the user name of the deployed operator at the API server.
const serviceAccount = "system:serviceaccount:examprep-system:examprep-operator"

// systemNamespace is where the operator itself lives.
const systemNamespace = "examprep-system"

// right is one verb on one kind of one group, with its subresource; in the operator's own namespace or elsewhere.
type right struct {
	verb, group, resource string
	own                   bool
}

type auditEvent struct {
	Verb             string `json:"verb"`
	ImpersonatedUser struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func audited(t *testing.T, log string) (used map[right]int) {
	t.Helper()
	file, err := os.Open(log)
	check.NoError(t, err)
	defer file.Close()
	used = map[right]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		testkit.Decode(t, lines.Bytes(), &event)
		if event.ImpersonatedUser.Username != serviceAccount || event.ObjectRef == nil {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		asked := right{event.Verb, event.ObjectRef.APIGroup, resource, event.ObjectRef.Namespace == systemNamespace}
		if event.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("refused: %+v", asked)
		}
		used[asked]++
	}
	check.NoError(t, lines.Err())
	return used
}

func rightsOf(rules []rbacv1.PolicyRule, own bool) []right {
	var rights []right
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{verb, group, resource, own})
				}
			}
		}
	}
	return rights
}

// auditedInstallation returns an installation on an API server of its own, with an audit log. The operator is the deployed
// service account, with only the roles of config/rbac.
func auditedInstallation(t *testing.T) (in *installation, log string) {
	t.Helper()
	folder := t.TempDir()
	log, policy := filepath.Join(folder, "audit.log"), filepath.Join(folder, "policy.yaml")
	testkit.WriteFile(t, policy, []byte(auditPolicy))
	config := clustertest.Start(t, map[string]string{
		"audit-policy-file": policy, "audit-log-path": log, "audit-log-mode": "blocking",
		// Refuses an owner reference that blocks the owner's deletion unless its finalizers may be updated.
		"enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
		// Reflectors list only where the API server does not stream lists, as older ones do not.
		"feature-gates": "WatchList=false",
	})
	clustertest.InstallCRDs(t, config, "config/crd/bases")
	in = &installation{t: t, kube: clustertest.ClientOf(t, config), config: clustertest.As(config, serviceAccount)}
	in.namespace("exams")
	in.namespace(systemNamespace)
	in.bindDeployedRoles()
	in.serve(postgres.Sandbox)
	return in, log
}

func (in *installation) namespace(name string) {
	in.t.Helper()
	namespace := &corev1.Namespace{}
	namespace.Name = name
	check.NoError(in.t, in.kube.Create(in.t.Context(), namespace))
	in.spaces = append(in.spaces, name)
}

func (in *installation) bindDeployedRoles() {
	in.t.Helper()
	clustertest.Grant(in.t, in.kube, systemNamespace, serviceAccount, clustertest.Rules(in.t, "leader_election_role.yaml"))
	role := &rbacv1.ClusterRole{Rules: clustertest.Rules(in.t, "role.yaml")}
	role.Name = "examprep-operator"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: serviceAccount}},
	}
	binding.Name = role.Name
	for _, object := range []client.Object{role, binding} {
		check.NoError(in.t, in.kube.Create(in.t.Context(), object))
	}
}

// TestTheOperatorHasTheRightsItUsesAndNoOthers makes the operator use all of its functions with only the deployed roles. The
// API server's audit log must show no refused request, and a request for each right of the roles.
func TestTheOperatorHasTheRightsItUsesAndNoOthers(t *testing.T) {
	t.Parallel()
	in, log := auditedInstallation(t)
	in.deps.RestrictWebhookAccounts = true
	in.options.LeaderElection, in.options.LeaderElectionNamespace = true, systemNamespace
	in.everywhere = true
	in.allow("acme")
	in.operate()
	in.exercise()
	in.stop()

	used := audited(t, log)
	if len(used) == 0 {
		t.Fatal("the audit log tells of nothing")
	}
	held := slices.Concat(rightsOf(clustertest.Rules(t, "role.yaml"), false), rightsOf(clustertest.Rules(t, "leader_election_role.yaml"), true))
	for _, one := range held {
		if used[one] == 0 {
			t.Errorf("held and not needed: %s %s in group %q", one.verb, one.resource, one.group)
		}
	}
	for one, times := range used {
		if !slices.Contains(held, one) && one.group != "authentication.k8s.io" {
			t.Errorf("used %d times by other roles than ours: %+v", times, one)
		}
	}
}

func (in *installation) exercise() {
	in.t.Helper()
	text, digest := chunk(in.t, 1, 3)
	content := sampleContent("sample", sampleKey(in.t))
	content.Spec.Papers = append(content.Spec.Papers, chunkedPaper(content.Spec.ExamKey+"-2024", "questions", digest))
	in.create(content)
	in.until(content, v1alpha1.ConditionResolvedRefs, "False", v1alpha1.ReasonRefNotFound)
	in.create(chunkMap("questions", text))
	in.ready(content)
	endpoint, tier := sampleEndpoint("https://hooks.example.com/"), sampleTier("gold", 600)
	endpoint.Spec.Account = "acme"
	in.create(endpoint)
	in.create(tier)
	in.ready(endpoint)
	in.ready(tier)
	in.requestRotation(endpoint, "now")
	in.rotated(endpoint, "now")
	for i := range 3 { // a repeated event increments the count of the first
		edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true })
		in.until(content, v1alpha1.ConditionReady, "False", v1alpha1.ReasonSuspended)
		edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Suspend = false })
		in.ready(content)
		in.requestRotation(endpoint, fmt.Sprint(i))
		in.rotated(endpoint, fmt.Sprint(i))
	}
	for _, object := range []client.Object{content, endpoint, tier} {
		if told := in.events(object, 1); !strings.Contains(fmt.Sprint(told), v1alpha1.ReasonReady) {
			in.t.Errorf("events of %s: %v", object.GetName(), told)
		}
		in.delete(object)
	}
}
