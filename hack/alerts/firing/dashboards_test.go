package firing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestDashboardsAskForWhatIsThere holds what each panel selects against what the processes of an installation tell, at
// work and all well: a panel that stays empty then is misspelt.
func TestDashboardsAskForWhatIsThere(t *testing.T) {
	s, p, c := newEnv(t), newPrometheus(t), newCluster(t)
	s.registerReceiver()
	pods := []*pod{
		s.start("api"), s.start("worker"),
		s.start("operator", "KUBECONFIG="+c.account, "EXAMPREP_LEADER_NAMESPACE="+operatorNamespace, "EXAMPREP_WATCH_NAMESPACES="+c.namespace),
	}
	s.works(pods[0])()
	s.deliver()
	c.declare("sample-declared", "sample-geography-questions.yaml", "examprep_v1alpha1_examcontent.yaml")
	c.declare("sample-incomplete", "examprep_v1alpha1_examcontent.yaml")
	reads(t, pods[2], `examprep_operator_publish_seconds_count{result="published"} 1`)
	reads(t, pods[2], `examprep_operator_not_ready_since_timestamp_seconds{kind="ExamContent",name="sample-incomplete"`)
	reads(t, pods[1], "examprep_webhook_retention_success_timestamp_seconds 1.")
	testkit.Eventually(t, "the API knows what was declared", func() bool {
		return s.ask(pods[0], s.key, "192.0.2.1", "GET", "/v1/exam-prep/sample-declared/overview", "") == http.StatusOK
	})
	var told model.Vector
	for _, pod := range pods {
		told = append(told, p.scrape(pod)...)
	}
	for _, one := range selectors(t) {
		if !slices.ContainsFunc(told, one.matches) {
			t.Errorf("%s: nobody tells of %s", one.panel, one)
		}
	}
}

type selector struct {
	*parser.VectorSelector

	panel string
}

func (s selector) matches(sample *model.Sample) bool {
	return !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
		if m.Name == "namespace" || m.Name == "job" {
			return false // the user's choice, of labels that Prometheus gives
		}
		return !m.Matches(string(sample.Metric[model.LabelName(m.Name)]))
	})
}

func selectors(t *testing.T) []selector {
	t.Helper()
	files, err := filepath.Glob("../../../charts/examprep/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	var all []selector
	for _, file := range files {
		var dashboard struct {
			Panels []struct {
				Title   string `json:"title"`
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &dashboard)
		}
		check.NoErrorf(t, err, "%s", file)
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				expression, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
				check.NoErrorf(t, err, "%s, %s", file, panel.Title)
				parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
					if found, ok := node.(*parser.VectorSelector); ok {
						all = append(all, selector{found, fmt.Sprintf("%s, %s", filepath.Base(file), panel.Title)})
					}
					return nil
				})
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("no panel selects anything")
	}
	return all
}
