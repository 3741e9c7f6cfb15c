package firing

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// operatorNamespace and operatorAccount are the service account of the operator, as in config/default.
	operatorNamespace, operatorAccount = "examprep-system", "examprep-operator"
	lease                              = "examprep-operator.examprep.dev"
	samples                            = "../../../config/samples/"
)

// cluster is an API server with the project's CRDs, and a namespace of the test's own.
type cluster struct {
	t         *testing.T
	namespace string
	// account is the kubeconfig of the operator, with the permissions of config/rbac only.
	account string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, namespace: "alerts-" + random(), account: filepath.Join(t.TempDir(), "kubeconfig")}
	c.kubectl("", "apply", "--server-side", "-f", "../../../config/default/namespace.yaml")
	c.kubectl("", "apply", "--server-side", "-n", operatorNamespace, "-k", "../../../config/rbac")
	c.kubectl("", "create", "namespace", c.namespace)
	c.kubectl("", "delete", "lease", lease, "-n", operatorNamespace, "--ignore-not-found") // of an earlier run
	token := c.kubectl("", "create", "token", operatorAccount, "-n", operatorNamespace, "--duration", "1h")
	text, err := os.ReadFile(needed(t, "EXAMPREP_TEST_KUBECONFIG"))
	if err == nil {
		err = os.WriteFile(c.account, text, 0o600)
	}
	check.NoError(t, err)
	c.kubectl("", "--kubeconfig", c.account, "config", "set-credentials", operatorAccount, "--token", strings.TrimSpace(token))
	c.kubectl("", "--kubeconfig", c.account, "config", "set-context", "--current", "--user", operatorAccount)
	return c
}

// kubectl does something as an administrator, unless the arguments name another kubeconfig.
func (c *cluster) kubectl(input string, arguments ...string) string {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), filepath.Join(needed(c.t, "KUBEBUILDER_ASSETS"), "kubectl"),
		append([]string{"--kubeconfig", needed(c.t, "EXAMPREP_TEST_KUBECONFIG")}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var failed bytes.Buffer
	command.Stderr = &failed
	printed, err := command.Output()
	if err != nil {
		c.t.Fatalf("kubectl %v: %v\n%s", arguments, err, failed.Bytes())
	}
	return string(printed)
}

// declare applies a sample as that of another exam; that is not what its seals say.
func (c *cluster) declare(exam string, files ...string) {
	c.t.Helper()
	for _, file := range files {
		text := testkit.ReadFile(c.t, samples+file)
		c.kubectl(strings.ReplaceAll(string(text), "sample-geography", exam), "apply", "-n", c.namespace, "-f", "-")
	}
}

func TestAlertsOfTheOperator(t *testing.T) {
	s, p, c := newEnvOf(t, "production"), newPrometheus(t), newCluster(t)
	variables := []string{
		"KUBECONFIG=" + c.account, "EXAMPREP_LEADER_NAMESPACE=" + operatorNamespace, "EXAMPREP_WATCH_NAMESPACES=" + c.namespace,
	}
	operator := s.start("operator", variables...)
	p.pods[operator] = true
	reads(t, operator, `leader_election_master_status{name="`+lease+`"} 1`)
	reads(t, operator, "examprep_ready 1")
	p.quiet(12, nothing)

	c.declare("sample-tampered", "sample-geography-questions.yaml", "examprep_v1alpha1_examcontent.yaml")
	c.declare("sample-incomplete", "examprep_v1alpha1_examcontent.yaml")
	for name, reason := range map[string]string{"sample-tampered": "SealMismatch", "sample-incomplete": "RefNotFound"} {
		reads(t, operator, fmt.Sprintf(`examprep_operator_not_ready_since_timestamp_seconds{kind="ExamContent",name=%q,reason=%q,`, name, reason))
	}
	p.tick()
	p.frozen = true
	p.fire(40*time.Minute, nothing, "ExamprepSealMismatch", "ExamprepResourceNotReady")
	p.frozen = false

	s.Postgres.Cut(true)
	edits := 0
	p.fire(30*time.Minute, func() {
		if edits++; edits%5 == 1 { // the pauses between its tries grow
			before := p.failures(operator)
			c.kubectl("", "patch", "examcontent", "sample-tampered", "-n", c.namespace, "--type", "merge",
				"-p", fmt.Sprintf(`{"spec":{"name":"Edit %d"}}`, edits))
			testkit.Eventually(t, "the operator fails once more", func() bool { return p.failures(operator) > before })
		}
	}, "ExamprepOperatorReconcileErrors")
	s.Postgres.Cut(false)

	operator.Stop()
	// The holder of the lease does no work, and no replica can take the lease until it expires.
	c.kubectl("", "patch", "lease", lease, "-n", operatorNamespace, "--type", "merge", "-p", fmt.Sprintf(
		`{"spec":{"holderIdentity":"nobody","leaseDurationSeconds":3600,"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	s.launch(operator, "operator", variables...)
	reads(t, operator, `leader_election_master_status{name="`+lease+`"} 0`)
	p.fire(10*time.Minute, nothing, "ExamprepOperatorNoLeader")
	c.kubectl("", "delete", "lease", lease, "-n", operatorNamespace)
	reads(t, operator, `leader_election_master_status{name="`+lease+`"} 1`)
	p.tick()
	if p.firing()["ExamprepOperatorNoLeader"] {
		t.Error("ExamprepOperatorNoLeader fires beside a leader")
	}

	operator.Stop()
	delete(p.pods, operator)
	p.fire(20*time.Minute, nothing, "ExamprepOperatorAbsent")
}

func (p *prometheus) failures(operator *pod) model.SampleValue {
	p.t.Helper()
	for _, sample := range p.scrape(operator) {
		if sample.Metric[model.MetricNameLabel] == "controller_runtime_reconcile_errors_total" && sample.Metric["controller"] == "examcontent" {
			return sample.Value
		}
	}
	return 0
}
