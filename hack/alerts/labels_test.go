package alerts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// A checker compares PromQL expressions with the series that there are. It computes the labels of each part of an
// expression, and reports names of series and labels that do not exist.
type checker struct {
	series map[string]labelSet
	// recorded are the labels of the series that recording rules write.
	recorded map[string]labelSet
	problems []string
}

// check returns what is wrong with an expression, and the labels of its result. An expression that does not parse is an
// error.
func (c *checker) check(expression string) (labelSet, []string, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return labelSet{}, nil, err
	}
	c.problems = nil
	return c.labels(parsed), c.problems, nil
}

func (c *checker) problemf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) need(set labelSet, node parser.Node, names ...string) {
	for _, name := range names {
		if !set.has(name) {
			c.problemf("%s has the labels %v, not %s", node, set.sorted(), name)
		}
	}
}

// labels returns the labels of an expression's result.
func (c *checker) labels(node parser.Expr) labelSet {
	switch node := node.(type) {
	case *parser.VectorSelector:
		return c.selected(node)
	case *parser.MatrixSelector:
		return c.labels(node.VectorSelector)
	case *parser.SubqueryExpr:
		return c.labels(node.Expr)
	case *parser.ParenExpr:
		return c.labels(node.Expr)
	case *parser.UnaryExpr:
		return c.labels(node.Expr)
	case *parser.StepInvariantExpr:
		return c.labels(node.Expr)
	case *parser.AggregateExpr:
		return c.aggregated(node)
	case *parser.BinaryExpr:
		return c.combined(node)
	case *parser.Call:
		return c.called(node)
	default:
		return labelsNamed()
	}
}

func (c *checker) selected(node *parser.VectorSelector) labelSet {
	name := node.Name
	for _, matcher := range node.LabelMatchers {
		if matcher.Name == "__name__" {
			name = matcher.Value // {__name__=~"a|b"} is reported: its series are not known
		}
	}
	set, known := c.series[name]
	if !known {
		set, known = c.recorded[name]
	}
	if !known {
		if strings.HasPrefix(name, "examprep") {
			c.problemf("no process registers %s", name)
		}
		return labelSet{open: true}
	}
	for _, matcher := range node.LabelMatchers {
		if matcher.Name != "__name__" {
			c.need(set, node, matcher.Name)
		}
	}
	return set
}

func (c *checker) aggregated(node *parser.AggregateExpr) labelSet {
	inner := c.labels(node.Expr)
	if node.Param != nil {
		c.labels(node.Param)
	}
	c.need(inner, node.Expr, node.Grouping...)
	switch {
	case node.Op == parser.TOPK || node.Op == parser.BOTTOMK || node.Op == parser.LIMITK || node.Op == parser.LIMIT_RATIO:
		return inner
	case node.Without:
		return inner.without(node.Grouping...)
	case node.Op == parser.COUNT_VALUES:
		return labelsNamed(node.Grouping...).with(text(node.Param))
	default:
		return labelsNamed(node.Grouping...)
	}
}

func (c *checker) combined(node *parser.BinaryExpr) labelSet {
	left, right := c.labels(node.LHS), c.labels(node.RHS)
	matching := node.VectorMatching
	if matching == nil { // a scalar is on one side
		if node.LHS.Type() == parser.ValueTypeVector {
			return left
		}
		return right
	}
	c.need(left, node.LHS, matching.MatchingLabels...)
	c.need(right, node.RHS, matching.MatchingLabels...)
	switch {
	case node.Op == parser.LOR:
		return labelSet{names: left.with(right.sorted()...).names, open: left.open || right.open}
	case node.Op.IsSetOperator():
		if !matching.On {
			c.alike(node, left.without(matching.MatchingLabels...), right.without(matching.MatchingLabels...))
		}
		return left
	case matching.Card == parser.CardManyToOne:
		c.need(right, node.RHS, matching.Include...)
		return left.with(matching.Include...)
	case matching.Card == parser.CardOneToMany:
		c.need(left, node.LHS, matching.Include...)
		return right.with(matching.Include...)
	case matching.On:
		return labelsNamed(matching.MatchingLabels...)
	default:
		c.alike(node, left.without(matching.MatchingLabels...), right.without(matching.MatchingLabels...))
		return left.without(matching.MatchingLabels...)
	}
}

// alike reports two sides of an operator that match no series since one has labels that the other lacks.
func (c *checker) alike(node parser.Node, left, right labelSet) {
	if !left.open && !right.open && !slices.Equal(left.sorted(), right.sorted()) {
		c.problemf("%s compares series with the labels %v and %v: none match", node, left.sorted(), right.sorted())
	}
}

func (c *checker) called(node *parser.Call) labelSet {
	set := labelsNamed()
	for _, argument := range node.Args {
		if kind := argument.Type(); kind == parser.ValueTypeVector || kind == parser.ValueTypeMatrix {
			set = c.labels(argument)
		}
	}
	switch node.Func.Name {
	case "histogram_quantile":
		c.need(set, node, "le")
		return set.without("le")
	case "label_replace":
		c.need(set, node, text(node.Args[3]))
		return set.with(text(node.Args[1]))
	case "label_join":
		for _, source := range node.Args[3:] {
			c.need(set, node, text(source))
		}
		return set.with(text(node.Args[1]))
	default:
		return set
	}
}

func text(node parser.Expr) string {
	if literal, ok := node.(*parser.StringLiteral); ok {
		return literal.Val
	}
	return ""
}

func TestCheckerReportsSeriesAndLabelsThatDoNotExist(t *testing.T) {
	c := &checker{
		series: map[string]labelSet{
			"examprep_a": labelsNamed("pod", "x"), "examprep_b": labelsNamed("pod", "y"), "examprep_h_bucket": labelsNamed("pod", "le"),
		},
		recorded: map[string]labelSet{"examprep:a:sum": labelsNamed("x")},
	}
	for expression, want := range map[string]string{
		`examprep_a{x="1"}`:                                                         "",
		`examprep_a{z="1"}`:                                                         "not z",
		`examprep_a{x="1", z!~"2"}`:                                                 "not z",
		`rate(examprep_c[5m])`:                                                      "no process registers examprep_c",
		`up{z="1"} > 0`:                                                             "",
		`sum by (x) (rate(examprep_a[5m]))`:                                         "",
		`sum by (x, z) (rate(examprep_a[5m]))`:                                      "not z",
		`sum without (z) (examprep_a)`:                                              "not z",
		`sum by (pod) (sum by (x) (examprep_a))`:                                    "not pod",
		`sum by (pod) (sum without (pod) (examprep_a))`:                             "not pod",
		`max by (z) (up)`:                                                           "",
		`sum by (pod) (max by (z) (up))`:                                            "not pod",
		`topk(5, sum by (x) (examprep_a)) > 1`:                                      "",
		`sum by (pod) (topk(5, sum by (x)(examprep_a)))`:                            "not pod",
		`examprep_a / on (pod) examprep_b`:                                          "",
		`examprep_a / on (y) examprep_b`:                                            "not y",
		`examprep_a / ignoring (x) examprep_b`:                                      "not x",
		`examprep_a / examprep_b`:                                                   "none match",
		`sum by (pod) (examprep_a) / sum by (pod) (examprep_b)`:                     "",
		`sum by (pod) (examprep_a) / sum(examprep_b)`:                               "none match",
		`sum by (y) (examprep_a * on (pod) group_left (y) examprep_b)`:              "",
		`examprep_a * on (pod) group_left (z) examprep_b`:                           "not z",
		`sum by (y) (examprep_a * on (pod) group_right () examprep_b)`:              "",
		`sum by (x) (examprep_a * on (pod) group_right () examprep_b)`:              "not x",
		`examprep_a unless on (y) examprep_b`:                                       "not y",
		`sum by (y) (examprep_a or examprep_b)`:                                     "",
		`sum by (y) (examprep_a and on (pod) examprep_b)`:                           "not y",
		`histogram_quantile(0.9, sum by (le) (rate(examprep_h_bucket[5m])))`:        "",
		`histogram_quantile(0.9, sum by (pod) (rate(examprep_h_bucket[5m])))`:       "not le",
		`sum by (le) (histogram_quantile(0.9, rate(examprep_h_bucket[5m])))`:        "not le",
		`sum by (z) (label_replace(examprep_a, "z", "$1", "x", "(.*)"))`:            "",
		`label_replace(examprep_a, "x", "$1", "z", "(.*)")`:                         "not z",
		`label_join(examprep_a, "x", "-", "pod", "z")`:                              "not z",
		`min_over_time(max by (z) (examprep_a)[1d:10m])`:                            "not z",
		`sum by (x) (sum_over_time(examprep:a:sum[1h]))`:                            "",
		`sum by (pod) (sum_over_time(examprep:a:sum[1h]))`:                          "not pod",
		`examprep_a and examprep_b`:                                                 "none match",
		`examprep_a and ignoring (x) examprep_a`:                                    "",
		`quantile(scalar(examprep_c), examprep_a)`:                                  "no process registers examprep_c",
		`{__name__="examprep_a", z="1"}`:                                            "not z",
		`{__name__=~"examprep_.*"}`:                                                 "no process registers examprep_.*",
		`examprep:b:sum`:                                                            "no process registers examprep:b:sum",
		`time() - max by (z) (examprep_a) > 60`:                                     "not z",
		`sum by (v) (count_values by (x) ("v", examprep_a))`:                        "",
		`sum by (pod) (count_values by (x) ("v", examprep_a))`:                      "not pod",
		`absent(examprep_a{z="1"})`:                                                 "not z",
		`-(1 - examprep_a{z="1"})`:                                                  "not z",
		`round(examprep_c, 5)`:                                                      "no process registers examprep_c",
		`sort_desc(sum by (z) (examprep_a)) or vector(0)`:                           "not z",
		`max(examprep_a) > bool scalar(max by (z) (examprep_b))`:                    "not z",
		`quantile by (z) (0.5, examprep_a)`:                                         "not z",
		`examprep_a @ 5 offset 5m > 1 and on (pod) rate(examprep_c[5m:1m] @ end())`: "no process registers examprep_c",
	} {
		_, problems, err := c.check(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := strings.Join(problems, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: reported %q, want %q", expression, got, want)
		}
	}
}
