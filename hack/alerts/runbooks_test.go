package alerts

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const index = "README.md"

// pages returns the files of the folder runbooks, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(chart + "runbooks/*.md")
	check.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		found[filepath.Base(file)] = string(testkit.ReadFile(t, file))
	}
	if found[index] == "" || len(found) < 40 {
		t.Fatalf("%d pages, and an index of %d bytes", len(found), len(found[index]))
	}
	return found
}

// opening returns the beginning of an alert's page: whether the alert can wait, what happened, and where the variables of the
// commands are explained. Critical alerts cannot wait, and all others can.
func opening(name string, rule rulefmt.Rule) (text, wait string) {
	wait = "yes"
	if rule.Labels["severity"] == "critical" {
		wait = "no"
	}
	return "# " + name + "\n\nCan wait until morning: " + wait + ".\n\n" + rule.Annotations["summary"] + ". Severity: " +
		rule.Labels["severity"] + ". [Set the variables](" + index + "#set-the-variables) before you run the commands.\n\n## Impact\n\n", wait
}

func TestEachAlertHasAPageAndEachPageAnAlert(t *testing.T) {
	all, rules := pages(t), alerts(t)
	for name, rule := range rules {
		page := all[name+".md"]
		_, impact, _ := strings.Cut(page, "\n## Impact\n\n")
		begins, wait := opening(name, rule)
		if !strings.HasPrefix(page, begins) {
			t.Errorf("the page of %s does not begin with\n%s", name, begins)
		}
		if wait == "no" && strings.HasPrefix(impact, "None") {
			t.Errorf("%s is critical and has no impact", name)
		}
		at := 0
		for _, heading := range []string{"\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n", "\n## Meaning\n"} {
			next := strings.Index(page[at:], heading)
			if next < 0 {
				t.Errorf("the page of %s has no %q after the headings before", name, strings.TrimSpace(heading))
				continue
			}
			at += next
		}
		row := "| [" + name + "](" + name + ".md) | " + wait + " | " + rule.Annotations["summary"] + ". |\n"
		if !strings.Contains(all[index], row) {
			t.Errorf("%s lacks the row\n%s", index, row)
		}
	}
	for page := range all {
		if _, ok := rules[strings.TrimSuffix(page, ".md")]; !ok && page != index {
			t.Errorf("%s is the page of no alert", page)
		}
	}
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchor = regexp.MustCompile(`[^a-z0-9 -]`)
)

// withoutCode returns a page without its blocks of code, and its headings as anchors.
func withoutCode(page string) (text string, anchors []string) {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		switch heading := strings.TrimLeft(line, "#"); {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
		case heading != line:
			name := anchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
		default:
			out.WriteString(line)
		}
	}
	return out.String(), anchors
}

// Pages link to each other only: a process serves them without the rest of the repository.
func TestLinksOfPagesResolve(t *testing.T) {
	all, named := pages(t), regexp.MustCompile(`\[?\bExamprep[A-Z]\w+`)
	for name, page := range all {
		text, _ := withoutCode(page)
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(match[1], "#")
			linked, ok := all[target]
			if !ok {
				t.Errorf("%s links to %s, which is not a page", name, match[1])
				continue
			}
			if _, anchors := withoutCode(linked); heading != "" && !slices.Contains(anchors, heading) {
				t.Errorf("%s links to %s, but there is no such heading", name, match[1])
			}
		}
		for _, other := range named.FindAllString(link.ReplaceAllString(text, ""), -1) {
			if !strings.HasPrefix(other, "[") {
				t.Errorf("%s names %s without a link", name, other)
			}
		}
	}
}

// The index says that a variable has the value of the alert's label of that name. A page can set one itself.
func TestVariablesOfPagesAreLabelsOfTheAlert(t *testing.T) {
	all, c := pages(t), newChecker(t)
	row := regexp.MustCompile(`(?m)^\| (.*) \| the label of the alert that has this name in lower case \|$`).FindStringSubmatch(all[index])
	if row == nil {
		t.Fatalf("%s does not say which variables are labels", index)
	}
	variables := matches(regexp.MustCompile("`([A-Z_]+)`"), row[1])
	for name, rule := range alerts(t) {
		var labels []string
		for _, variable := range variables {
			page := all[name+".md"]
			if regexp.MustCompile(`\$`+variable+`\b`).MatchString(page) && !strings.Contains(page, variable+"=") {
				labels = append(labels, strings.ToLower(variable))
			}
		}
		c.reports(t, "the page of "+name, rule.Expr, labels...)
	}
}

// otherReasons has the reasons of Ready and suspended resources, of events, and of conditions that leave a resource Ready.
var otherReasons = []string{
	"Ready", "Progressing", "Suspended", "Accepted", "Resolved", "Published", "Pinned", "DriftRepaired", "SecretRotated",
	"Delivering", "NoDeliveries", "Failing", "FailingLong",
}

func TestEachReasonOfAResourceThatIsNotReadyHasAnExplanation(t *testing.T) {
	const name = "ExamprepResourceNotReady"
	reasons := matches(regexp.MustCompile(`(?m)^\tReason\w+ = "(\w+)"$`), string(testkit.ReadFile(t, "../../api/v1alpha1/groupversion.go")))
	if len(reasons) < 20 {
		t.Fatalf("%d reasons found; the form of their declarations has changed", len(reasons))
	}
	page, expression := pages(t)[name+".md"], alerts(t)[name].Expr
	for _, reason := range reasons {
		if !slices.Contains(otherReasons, reason) && !strings.Contains(expression, reason) && !strings.Contains(page, "- `"+reason+"`: ") {
			t.Errorf("the page of %s does not explain the reason %s", name, reason)
		}
	}
}

// The paragraph about the variables is in the index only.
func TestPagesDoNotRepeatTheIndex(t *testing.T) {
	explanation := regexp.MustCompile(`alert's labels|helm list|redis://default`)
	all := pages(t)
	if !explanation.MatchString(all[index]) {
		t.Errorf("%s does not explain the variables", index)
	}
	for name, page := range all {
		if found := explanation.FindString(page); found != "" && name != index {
			t.Errorf("%s explains variables (%q), which %s does", name, found, index)
		}
	}
}

// The alert's label job is the scrape job, such as kube-state-metrics; the Kubernetes Job is in job_name.
func TestNoPageTakesTheScrapesJobForAKubernetesJob(t *testing.T) {
	for name, page := range pages(t) {
		if regexp.MustCompile(`job[/ ]"?\$JOB\b`).MatchString(page) {
			t.Errorf("%s looks for a Job by the label job", name)
		}
	}
}
