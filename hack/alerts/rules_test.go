package alerts

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	chart = "../../charts/examprep/"
	// runbooks is the address of the pages for the release examprep in the namespace examprep; the chart replaces it.
	runbooks = "http://examprep-metrics.examprep.svc:9090/runbooks/"
)

func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	found := map[string]rulefmt.Rule{}
	for _, rules := range ruleFiles(t) {
		for _, rule := range rules {
			if _, twice := found[rule.Alert]; twice && rule.Alert != "" {
				t.Errorf("%s is there twice", rule.Alert)
			}
			if rule.Alert != "" {
				found[rule.Alert] = rule
			}
		}
	}
	return found
}

func ruleFiles(t *testing.T) map[string][]rulefmt.Rule {
	t.Helper()
	files, err := filepath.Glob(chart + "alerts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("rule files: %v, %v", files, err)
	}
	all := map[string][]rulefmt.Rule{}
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Errorf("%s: %v", file, errs)
			continue
		}
		for _, group := range groups.Groups {
			all[file] = append(all[file], group.Rules...)
		}
	}
	return all
}

func TestEachAlertSaysHowUrgentItIsAndWhatToDo(t *testing.T) {
	for name, rule := range alerts(t) {
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", name, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s: no %s", name, annotation)
			}
		}
		check.Equal(t, rule.Annotations["runbook_url"], runbooks+name+".md", "%s: runbook_url", name)
	}
}

func TestEachAlertHasUnitTestsThatFireAndThatDoNot(t *testing.T) {
	files, err := filepath.Glob(chart + "alerts/tests/*.yaml")
	check.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		all.Write(text)
	}
	for name := range alerts(t) {
		for _, test := range []string{"- name: " + name + " fires\n", "- name: " + name + " stays silent\n"} {
			if !strings.Contains(all.String(), test) {
				t.Errorf("%s: no test %q", name, strings.TrimSpace(test))
			}
		}
	}
}

type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Datasource  source `json:"datasource"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		Expr       string `json:"expr"`
		Datasource source `json:"datasource"`
	} `json:"targets"`
}

type source struct {
	UID string `json:"uid"`
}

func TestDashboardsAskWhatTheUserChose(t *testing.T) {
	files, err := filepath.Glob(chart + "dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		check.Equal(t, d.UID+".json", filepath.Base(file), "%s: file of the uid", file)
		if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: its first variable is no data source", file)
		}
		for _, p := range d.Panels {
			checkPanel(t, file, p)
		}
	}
}

func checkPanel(t *testing.T, file string, p panel) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
		t.Errorf("%s, %s: unit %q, %d queries, data source %q", file, p.Title, p.FieldConfig.Defaults.Unit, len(p.Targets), p.Datasource.UID)
	}
	for _, target := range p.Targets {
		query := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(query); err != nil {
			t.Errorf("%s, %s: %v", file, p.Title, err)
		}
		if !strings.Contains(query, `namespace=~"$namespace", job=~"$job"`) || target.Datasource.UID != "${datasource}" {
			t.Errorf("%s, %s: %s does not ask what was chosen", file, p.Title, query)
		}
	}
}
