package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorder is a test whose failures are recorded.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "TestGoldenFruit" }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// failed is what Fatalf panics with.
type failed string

func (r *recorder) Fatalf(format string, args ...any) { panic(failed(fmt.Sprintf(format, args...))) }

func compare(t *testing.T, lines ...string) (failures []string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if fatal := recover(); fatal != nil {
			failures = []string{fmt.Sprint(fatal)}
		}
	}()
	Compare(r, "fruit", lines)
	return r.failures
}

func setUpdate(t *testing.T, value bool) {
	t.Helper()
	before := *update
	*update = value
	t.Cleanup(func() { *update = before })
}

func TestUpdateWritesASortedFileThatThenAgrees(t *testing.T) {
	t.Chdir(t.TempDir())
	setUpdate(t, true)
	if failures := compare(t, "pear", "apple", "fig", "apple"); failures != nil {
		t.Fatal(failures)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "fruit.txt"))
	if err != nil || string(text) != strings.Repeat("apple\n", 2)+"fig\npear\n" {
		t.Errorf("%q, %v", text, err)
	}
	setUpdate(t, false)
	if failures := compare(t, "apple", "pear", "fig", "apple"); failures != nil {
		t.Error(failures)
	}
}

func TestChangedListFailsWithTheDifferenceAndTheCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	setUpdate(t, true)
	compare(t, "apple", "pear", "plum")
	setUpdate(t, false)
	for name, test := range map[string]struct{ lines, want []string }{
		"added":    {[]string{"apple", "fig", "pear", "plum"}, []string{"+ fig"}},
		"removed":  {[]string{"apple", "plum"}, []string{"- pear"}},
		"changed":  {[]string{"apple", "pears", "plum"}, []string{"- pear", "+ pears"}},
		"repeated": {[]string{"apple", "pear", "pear", "plum"}, []string{"+ pear"}},
	} {
		t.Run(name, func(t *testing.T) {
			failures := strings.Join(compare(t, test.lines...), "\n")
			var changes []string
			for line := range strings.Lines(failures) {
				if strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "- ") {
					changes = append(changes, strings.TrimSpace(line))
				}
			}
			if !slices.Equal(changes, test.want) || !strings.Contains(failures, "go test -run '^TestGoldenFruit$' -update") {
				t.Errorf("%q", failures)
			}
		})
	}
}

func TestMissingFileUnsortedFileAndUselessListFail(t *testing.T) {
	t.Chdir(t.TempDir())
	setUpdate(t, false)
	if failures := compare(t, "apple"); len(failures) != 1 || !strings.Contains(failures[0], "+ apple") {
		t.Errorf("without a file: %q", failures)
	}
	if err := write(filepath.Join("testdata", "fruit.txt"), []string{"pear", "apple"}); err != nil {
		t.Fatal(err)
	}
	if failures := compare(t, "pear", "apple"); len(failures) != 1 || !strings.Contains(failures[0], "not sorted") {
		t.Errorf("unsorted file: %q", failures)
	}
	for _, update := range []bool{false, true} {
		setUpdate(t, update)
		if failures := compare(t); len(failures) != 1 || !strings.Contains(failures[0], "empty") {
			t.Errorf("empty list, -update=%t: %q", update, failures)
		}
		if failures := compare(t, "a\nb"); len(failures) != 1 || !strings.Contains(failures[0], "more than one line") {
			t.Errorf("line break, -update=%t: %q", update, failures)
		}
	}
}
