package golden

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the lists under testdata instead of comparing them")

// Compare reports an error if lines, sorted, differ from the file testdata/<name>.txt in the test's folder. With the
// flag -update it writes that file instead. An empty list and a line with a line break are errors.
func Compare(t testing.TB, name string, lines []string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if err := validate(lines); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	compareLines(t, file, slices.Sorted(slices.Values(lines)))
}

// CompareFile reports an error if text differs from a file, by its path from the test's folder. With the flag -update it writes the file.
func CompareFile(t testing.TB, file, text string) {
	t.Helper()
	compareLines(t, file, strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
}

func compareLines(t testing.TB, file string, lines []string) {
	t.Helper()
	if *update {
		if err := write(file, lines); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	if changes := diff(recorded, lines); len(changes) > 0 {
		t.Errorf("%s has changed:\n%s\nif this is meant, run `go test -run '^%s$' -update` in this folder, or `make golden`",
			file, strings.Join(changes, "\n"), t.Name())
	}
}

func validate(lines []string) error {
	if len(lines) == 0 {
		return errors.New("the list is empty: the test no longer finds its subject")
	}
	for _, line := range lines {
		if strings.Contains(line, "\n") {
			return fmt.Errorf("%q is more than one line", line)
		}
	}
	return nil
}

// read returns the lines of file, none if it does not exist.
func read(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

func write(file string, lines []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// diff returns the lines that only recorded has, marked "-", and those that only lines has, marked "+". Repeated lines
// count. For lists that differ in order alone it returns one sentence.
func diff(recorded, lines []string) []string {
	counts := map[string]int{}
	for _, line := range recorded {
		counts[line]--
	}
	for _, line := range lines {
		counts[line]++
	}
	var changes []string
	for line, count := range counts {
		for range max(-count, count) {
			sign := "+ "
			if count < 0 {
				sign = "- "
			}
			changes = append(changes, sign+line)
		}
	}
	slices.SortFunc(changes, func(a, b string) int {
		if byLine := strings.Compare(a[2:], b[2:]); byLine != 0 {
			return byLine
		}
		return strings.Compare(a, b)
	})
	if len(changes) == 0 && !slices.Equal(recorded, lines) {
		return []string{"its lines are not sorted"}
	}
	return changes
}
