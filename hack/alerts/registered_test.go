package alerts

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// metricsList lists the metrics that api, worker and operator register, with type and labels; a test of server/command
// keeps it equal to real processes.
const metricsList = "../../server/command/testdata/metrics.txt"

// A labelSet has the labels of a query's result, as far as they are known.
type labelSet struct {
	names map[string]bool
	// open sets can have further labels: those of other projects' series are not known.
	open bool
}

func labelsNamed(names ...string) labelSet {
	set := labelSet{names: map[string]bool{}}
	for _, name := range names {
		set.names[name] = true
	}
	return set
}

func (s labelSet) has(name string) bool { return s.open || s.names[name] }

func (s labelSet) with(names ...string) labelSet {
	added := labelSet{names: maps.Clone(s.names), open: s.open}
	if added.names == nil {
		added.names = map[string]bool{}
	}
	for _, name := range names {
		added.names[name] = true
	}
	return added
}

func (s labelSet) without(names ...string) labelSet {
	left := s.with()
	for _, name := range names {
		delete(left.names, name)
	}
	return left
}

func (s labelSet) sorted() []string { return slices.Sorted(maps.Keys(s.names)) }

// scrapeLabels returns the labels that Prometheus adds to each series that it scrapes for a PodMonitor or ServiceMonitor.
func scrapeLabels() []string {
	return []string{"namespace", "job", "instance", "pod", "container", "endpoint", "service"}
}

// registered returns the labels of each series that a process registers, by its name: a histogram has three.
func registered(t *testing.T) map[string]labelSet {
	t.Helper()
	text, err := os.ReadFile(metricsList)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]labelSet{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			t.Fatalf("%s: %q has not four fields", metricsList, line)
		}
		name, kind, set := fields[0], fields[1], labelsNamed(scrapeLabels()...)
		if fields[2] != "-" {
			set = set.with(strings.Split(fields[2], ",")...)
		}
		if _, twice := all[name]; twice {
			t.Errorf("%s lists %s twice: processes register it with different labels", metricsList, name)
		}
		if all[name] = set; kind == "histogram" {
			delete(all, name)
			all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = set.with("le"), set, set
		}
	}
	if len(all) < 50 {
		t.Fatalf("%s lists %d series", metricsList, len(all))
	}
	return all
}
