package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	const name = "test"
	written := api.NewConfig()
	written.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}
	written.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		ClientCertificate: config.CertFile, ClientKey: config.KeyFile,
	}
	written.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	written.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, clientcmd.WriteToFile(*written, path))
	return path
}

func (e *env) startOperator(space string, args ...string) *testkit.Pod {
	e.t.Helper()
	return e.start(append([]string{
		"operator", "--kubeconfig", kubeconfig(e.t, clustertest.Config(e.t)),
		"--watch-namespaces", space, "--leader-namespace", space,
	}, args...)...)
}

func declare(t *testing.T, space string) *v1alpha1.ExamContent {
	t.Helper()
	kube := clustertest.Client(t)
	content := &v1alpha1.ExamContent{}
	content.Name, content.Namespace = "declared", space
	content.Spec = v1alpha1.ExamContentSpec{ExamKey: "xx-declared", Name: "A declared exam", Papers: []v1alpha1.Paper{{
		PaperID: "xx-declared-2023", Title: "2023", Year: 2023,
		Provenance: v1alpha1.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
		Questions: []v1alpha1.Question{{
			Section: 1, Number: 1, Prompt: "Which of them is it?", Options: map[string]string{"A": "this one", "B": "that one"},
			Answer: v1alpha1.Answer{Choice: "B"}, Explanation: "It is that one.",
		}},
	}}}
	check.NoError(t, kube.Create(t.Context(), content))
	testkit.Eventually(t, "the exam is Ready", func() bool {
		check.NoError(t, kube.Get(t.Context(), kubeclient.ObjectKeyFromObject(content), content))
		return meta.IsStatusConditionTrue(content.Status.Conditions, v1alpha1.ConditionReady)
	})
	return content
}

func TestOneTraceTellsOfAReconcileDownToItsStatements(t *testing.T) {
	t.Parallel()
	s, space := newEnv(t), clustertest.Namespace(t)
	told := collect(t, s)
	operator := s.startOperator(space)
	declare(t, space)
	operator.Stop()
	flips := told.named("FlipExam", nil)
	if len(flips) != 1 {
		t.Fatalf("%d statements publish", len(flips))
	}
	trace := flips[0].GetTraceId()
	reconcile := told.one("reconcile ExamContent", trace)
	if reconcile.process != "examprep-operator" || len(reconcile.GetParentSpanId()) != 0 {
		t.Errorf("the reconcile's span is of %s, with parent %x", reconcile.process, reconcile.GetParentSpanId())
	}
	for _, statement := range []string{"ExamState", "BEGIN", "LockExam", "FlipExam", "COMMIT"} {
		if s := told.one(statement, trace); !s.isChildOf(reconcile) {
			t.Errorf("%s is not a statement of the reconcile", statement)
		}
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	for _, span := range told.spans {
		text := fmt.Sprint(span.Span)
		for _, private := range []string{"Which of them", "that one", "A declared exam", "xx-declared-2023", "INSERT INTO"} {
			if strings.Contains(text, private) {
				t.Errorf("a span %s holds %q: %s", span.GetName(), private, text)
			}
		}
	}
}

func TestAReconcileThatIsNotDrawnHasNoSpans(t *testing.T) {
	t.Parallel()
	s, space := newEnv(t), clustertest.Namespace(t)
	told := collect(t, s)
	s.Env = append(s.Env, "OTEL_TRACES_SAMPLER=always_off")
	operator := s.startOperator(space)
	declare(t, space)
	operator.Stop()
	told.mu.Lock()
	defer told.mu.Unlock()
	if len(told.spans) > 0 {
		t.Errorf("%d spans, the first is %s", len(told.spans), told.spans[0].GetName())
	}
}

// TestOperatorsOfTwoLeasesDoNotWaitForEachOther: two releases in one namespace, each with the lease that it was given.
func TestOperatorsOfTwoLeasesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s, space := newEnv(t), clustertest.Namespace(t)
	// The other release takes care of nothing here: it is to lead, not to work.
	one := s.startOperator(space, "--leader-lease", "one-operator.examprep.dev", "--shard-name", "other", "--shard-selector", "examprep.dev/shard=other")
	two := s.startOperator(space, "--leader-lease", "two-operator.examprep.dev")
	declare(t, space)
	kube, want := clustertest.Client(t), []string{"one-operator.examprep.dev", "two-operator.examprep.dev"}
	testkit.Eventually(t, "each operator holds its own lease", func() bool {
		leases := &coordinationv1.LeaseList{}
		check.NoError(t, kube.List(t.Context(), leases, kubeclient.InNamespace(space)))
		var held []string
		for i := range leases.Items {
			if holder := leases.Items[i].Spec.HolderIdentity; holder != nil && *holder != "" {
				held = append(held, leases.Items[i].Name)
			}
		}
		slices.Sort(held)
		return slices.Equal(held, want)
	})
	one.Stop()
	two.Stop()
}
