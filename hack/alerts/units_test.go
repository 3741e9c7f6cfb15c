package alerts

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.yaml.in/yaml/v3"

	"examprep.dev/server/testkit/check"
)

type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Expressions []struct {
		Expr     string         `yaml:"expr"`
		EvalTime model.Duration `yaml:"eval_time"`
		Samples  []struct {
			Labels string  `yaml:"labels"`
			Value  float64 `yaml:"value"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
}

// TestRulesPassTheirUnitTests runs promtool's tests by the engine that promtool runs them by: to compile promtool itself
// means to compile a client of Kubernetes.
func TestRulesPassTheirUnitTests(t *testing.T) {
	files, err := filepath.Glob(chart + "alerts/tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("unit tests: %v, %v", files, err)
	}
	for _, file := range files {
		tests := readUnitTests(t, file)
		for _, test := range tests.Tests {
			t.Run(test.Name, func(t *testing.T) { runUnitTest(t, tests, test) })
		}
	}
}

func readUnitTests(t *testing.T, file string) unitTests {
	t.Helper()
	text, err := os.Open(file)
	check.NoError(t, err)
	defer func() { _ = text.Close() }()
	var tests unitTests
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true) // what this does not know, it would pass over
	check.NoErrorf(t, decoder.Decode(&tests), "%s", file)
	for i, rule := range tests.RuleFiles {
		tests.RuleFiles[i] = filepath.Join(filepath.Dir(file), rule)
	}
	return tests
}

func runUnitTest(t *testing.T, tests unitTests, test unitTest) {
	t.Helper()
	storage := teststorage.New(t)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	query := rules.EngineQueryFunc(engine, storage)
	groups := loadGroups(t, storage, query, tests)
	fill(t, storage, test)

	end := time.Duration(0)
	for _, expression := range test.Expressions {
		end = max(end, time.Duration(expression.EvalTime))
	}
	for now := time.Duration(0); now <= end; now += time.Duration(tests.EvaluationInterval) {
		for _, group := range groups {
			group.Eval(t.Context(), time.Unix(0, 0).Add(now))
		}
	}
	for _, expression := range test.Expressions {
		result, err := query(t.Context(), expression.Expr, time.Unix(0, 0).Add(time.Duration(expression.EvalTime)))
		check.NoError(t, err)
		want := map[string]float64{}
		for _, sample := range expression.Samples {
			parsed, err := parser.NewParser(parser.Options{}).ParseMetric(sample.Labels)
			check.NoError(t, err)
			want[parsed.String()] = sample.Value
		}
		for _, sample := range result {
			if value, ok := want[sample.Metric.String()]; !ok || value != sample.F {
				t.Errorf("%s is %v at %s", sample.Metric, sample.F, expression.EvalTime)
			}
			delete(want, sample.Metric.String())
		}
		for missing := range want {
			t.Errorf("there is no %s at %s", missing, expression.EvalTime)
		}
	}
}

// loadGroups are the groups of the rule files; those that record before those that ask for it.
func loadGroups(t *testing.T, storage *teststorage.TestStorage, query rules.QueryFunc, tests unitTests) []*rules.Group {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: query, AppendableV2: storage, Queryable: storage, Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
		Parser: parser.NewParser(parser.Options{}),
	})
	loaded, errs := manager.LoadGroups(time.Duration(tests.EvaluationInterval), labels.EmptyLabels(), "", nil, false, tests.RuleFiles...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var first, then []*rules.Group
	for _, group := range loaded {
		for _, rule := range group.AlertingRules() {
			rule.SetRestored(true) // otherwise it writes no series ALERTS
		}
		if strings.HasSuffix(group.Name(), "-records") {
			first = append(first, group)
		} else {
			then = append(then, group)
		}
	}
	return slices.Concat(first, then)
}

func fill(t *testing.T, storage *teststorage.TestStorage, test unitTest) {
	t.Helper()
	appender := storage.Appender(t.Context())
	for _, series := range test.InputSeries {
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(series.Series + " " + series.Values)
		check.NoError(t, err)
		for i, value := range values {
			if value.Omitted {
				continue
			}
			_, err := appender.Append(0, name, int64(i)*time.Duration(test.Interval).Milliseconds(), value.Value)
			check.NoError(t, err)
		}
	}
	check.NoError(t, appender.Commit())
}
