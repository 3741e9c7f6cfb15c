package alerts

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// newChecker returns a checker that knows the registered series and those that the chart's rules record.
func newChecker(t *testing.T) *checker {
	t.Helper()
	c := &checker{series: registered(t), recorded: map[string]labelSet{}}
	files := ruleFiles(t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for _, rule := range files[file] {
			if rule.Record == "" {
				continue
			}
			set, problems, err := c.check(rule.Expr)
			if err != nil || len(problems) > 0 {
				t.Errorf("%s, %s: %v %q", file, rule.Record, err, problems)
			}
			c.recorded[rule.Record] = set
		}
	}
	return c
}

func (c *checker) reports(t *testing.T, where, expression string, named ...string) {
	t.Helper()
	set, problems, err := c.check(expression)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expression, err)
		return
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", where, problem)
	}
	for _, name := range named {
		if !set.has(name) {
			t.Errorf("%s names the label %s, but the result of %s has the labels %v", where, name, expression, set.sorted())
		}
	}
}

func matches(pattern *regexp.Regexp, text string) []string {
	var all []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

func TestAlertsQueryRegisteredSeries(t *testing.T) {
	c, label := newChecker(t), regexp.MustCompile(`\$labels\.(\w+)`)
	for file, rules := range ruleFiles(t) {
		for _, rule := range rules {
			var named []string
			for _, text := range rule.Annotations {
				named = append(named, matches(label, text)...)
			}
			c.reports(t, file+", "+rule.Alert+rule.Record, rule.Expr, named...)
		}
	}
}

// A unit test of an alert that feeds it a series that no process has proves nothing.
func TestUnitTestsOfAlertsUseRegisteredSeries(t *testing.T) {
	c := newChecker(t)
	files, err := filepath.Glob(chart + "alerts/tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("unit tests: %v, %v", files, err)
	}
	for _, file := range files {
		for _, test := range readUnitTests(t, file).Tests {
			for _, series := range test.InputSeries {
				c.reports(t, file+", "+test.Name, series.Series)
			}
			for _, expression := range test.Expressions {
				c.reports(t, file+", "+test.Name, expression.Expr)
			}
		}
	}
}

func TestDashboardsQueryRegisteredSeries(t *testing.T) {
	c := newChecker(t)
	files, err := filepath.Glob(chart + "dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	legend := regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		var document any
		check.NoErrorf(t, json.Unmarshal(text, &document), "%s", file)
		queries := 0
		each(document, func(fields map[string]any) {
			if expression, ok := fields["expr"].(string); ok {
				queries++
				format, _ := fields["legendFormat"].(string)
				c.reports(t, file, strings.ReplaceAll(expression, "$__rate_interval", "5m"), matches(legend, format)...)
			}
			for _, name := range []string{"query", "definition"} {
				if query, ok := fields[name].(string); ok && query != "prometheus" { // the type of data source
					queries++
					c.variable(t, file, query)
				}
			}
		})
		if queries < 10 {
			t.Errorf("%s has %d queries: the test does not see them", file, queries)
		}
	}
}

func (c *checker) variable(t *testing.T, file, query string) {
	t.Helper()
	parts := regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`).FindStringSubmatch(query)
	if parts == nil {
		t.Errorf("%s: the query %q of a variable is not label_values(…, label)", file, query)
		return
	}
	c.reports(t, file, parts[1], parts[2])
}

func each(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, field := range value {
			each(field, visit)
		}
	case []any:
		for _, element := range value {
			each(element, visit)
		}
	}
}

// A template's query is checked with a word in the place of each action.
func TestAutoscalingQueriesRegisteredSeries(t *testing.T) {
	c, file := newChecker(t), chart+"templates/autoscaling.yaml"
	text := testkit.ReadFile(t, file)
	plain := regexp.MustCompile(`\{\{[^{}]*\| quote \}\}`).ReplaceAllString(string(text), `"word"`)
	plain = regexp.MustCompile(`\{\{[^{}]*\}\}`).ReplaceAllString(plain, "word")
	queries := matches(regexp.MustCompile(`(?m)^ *query: (.*)$`), plain)
	if len(queries) == 0 {
		t.Errorf("%s has no query: the test does not see it", file)
	}
	for _, query := range queries {
		c.reports(t, file, query)
	}
}

// textFiles returns the files that administrators read or install, by path.
func textFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range []string{"../../README.md", "../../docs", "../../config", chart} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		})
		if err != nil && root != "../../docs" { // there may be none
			t.Fatal(err)
		}
	}
	return all
}

// notSeries are names that begin like a series and are none.
func notSeries() map[string]string {
	return map[string]string{
		"examprep_http_requests_per_second": "what a metrics adapter offers for pods, made of examprep_http_requests_total",
		"examprep_app":                      "a role of PostgreSQL",
		"examprep_restored":                 "a database",
		"examprep_session":                  "a cookie, after __Host-",
		"examprep_v1alpha1_examcontent":     "a file",
		"examprep_v1alpha1_ratetier":        "a file",
		"examprep_v1alpha1_webhookendpoint": "a file",
	}
}

func TestTextsNameRegisteredSeries(t *testing.T) {
	c, name := newChecker(t), regexp.MustCompile(`\bexamprep_[a-z0-9_]+`)
	seen := map[string]bool{}
	for file, text := range textFiles(t) {
		for _, found := range name.FindAllString(text, -1) {
			seen[found] = true
			if _, other := notSeries()[found]; !other && !c.names(found) {
				t.Errorf("%s names %s, which no process registers", file, found)
			}
		}
	}
	for other := range notSeries() {
		if !seen[other] {
			t.Errorf("no file names %s: remove it from this test", other)
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d names: the test does not see them", len(seen))
	}
}

// names reports whether a text names a series, all series of a histogram, or, as in examprep_redis_pool_…, several that
// begin alike.
func (c *checker) names(name string) bool {
	_, isSeries := c.series[name]
	_, isHistogram := c.series[name+"_bucket"]
	return isSeries || isHistogram || strings.HasSuffix(name, "_") && slices.ContainsFunc(slices.Collect(maps.Keys(c.series)),
		func(series string) bool { return strings.HasPrefix(series, name) })
}

// Queries in runbooks and other pages are lines of code, or code in a sentence. A line can hold several with commas
// between them, and the query of an autoscaler in YAML.
func TestPagesQueryRegisteredSeries(t *testing.T) {
	c, code, queries := newChecker(t), regexp.MustCompile("`([^`]+)`"), 0
	for file, text := range textFiles(t) {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "examprep_") {
				continue
			}
			line = strings.TrimPrefix(strings.TrimSpace(line), "query: ")
			for _, candidate := range append(matches(code, line), line) {
				if _, other := notSeries()[strings.TrimPrefix(candidate, "__Host-")]; other {
					continue
				}
				if isQuery(candidate) {
					queries++
					c.reports(t, file, candidate)
				} else if areQueries(candidate) {
					t.Errorf("%s: %q is several queries: give each a line", file, candidate)
				}
			}
		}
	}
	if queries < 40 {
		t.Errorf("%d queries: the test does not see them", queries)
	}
}

func isQuery(text string) bool {
	_, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	return err == nil
}

// areQueries reports whether text is queries with commas between them, which Prometheus does not take.
func areQueries(text string) bool {
	text, _, _ = strings.Cut(text, " #")
	for query := range strings.SplitSeq(text, ", ") {
		if !isQuery(query) {
			return false
		}
	}
	return true
}
