package alerts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// metricsLists list the metrics that api, worker and operator register, with type and labels; tests of server/command keep
// them equal to real processes.
const metricsLists = "../../server/command/testdata/metrics-*.txt"

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

func registered(t *testing.T) map[string]labelSet {
	t.Helper()
	lists, err := filepath.Glob(metricsLists)
	if err != nil || len(lists) != 3 {
		t.Fatalf("%s: %d lists, %v; want those of api, worker and operator", metricsLists, len(lists), err)
	}
	lines := map[string]string{} // by name
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, _, _ := strings.Cut(line, " ")
			if other, twice := lines[name]; twice && other != line {
				t.Errorf("processes register %s with different labels: %s and %s", name, other, line)
			}
			lines[name] = line
		}
	}
	all := map[string]labelSet{}
	for name, line := range lines {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%q has not three fields", line)
		}
		set := labelsNamed(scrapeLabels()...)
		if names := strings.Trim(fields[2], "{}"); names != "" {
			set = set.with(strings.Split(names, ",")...)
		}
		if fields[1] == "histogram" {
			all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = set.with("le"), set, set
		} else {
			all[name] = set
		}
	}
	if len(all) < 50 {
		t.Fatalf("%s list %d series", metricsLists, len(all))
	}
	return all
}
