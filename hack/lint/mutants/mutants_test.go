package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a repository with a rule and its test.
func sample(t *testing.T, list string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module sample\n",
		"rule/rule.go":          "package rule\n\nfunc Most(n int) bool {\n\treturn n <= 3\n}\n",
		"rule/rule_test.go":     "package rule\n\nimport \"testing\"\n\nfunc TestMost(t *testing.T) {\n\tif !Most(3) || Most(4) {\n\t\tt.Error(\"limit\")\n\t}\n}\n\nfunc TestWeak(t *testing.T) { Most(1) }\n\nfunc TestBroken(t *testing.T) { t.Error(\"broken\") }\n",
		"hack/lint/mutants.txt": list,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMutantIsCaughtOrNamed(t *testing.T) {
	const limit = "file rule/rule.go\n- n <= 3\n+ n < 3\n"
	for name, test := range map[string]struct{ list, says string }{
		"caught":               {limit + "test ./rule TestMost\n", "1 mutants of 1 packages, 0 failures"},
		"by an expression":     {limit + "test ./rule Most|Weak\n", "1 mutants of 1 packages, 0 failures"},
		"with lines":           {"file rule/rule.go\n- {\n- \treturn n <= 3\n+ {\n+ \treturn n <= 4\ntest ./rule TestMost\n", "1 mutants of 1 packages, 0 failures"},
		"by a weak test":       {limit + "test ./rule TestWeak\n", "the test passes or is skipped"},
		"by a broken test":     {limit + "test ./rule TestBroken\n", "./rule without a mutant: the tests fail"},
		"by no test":           {limit + "test ./rule TestNone\n", "the package has no such test"},
		"that is no program":   {"file rule/rule.go\n- n <= 3\n+ n <=\ntest ./rule TestMost\n", "it does not compile"},
		"of a text elsewhere":  {"file rule/rule.go\n- n <= 5\n+ n < 5\ntest ./rule TestMost\n", "the old text occurs 0 times"},
		"of a repeated text":   {"file rule/rule.go\n- n\n+ m\ntest ./rule TestMost\n", "times in the file, not once"},
		"of a file elsewhere":  {"file rule/other.go\n- n\n+ m\ntest ./rule TestMost\n", "no such file"},
		"of another package":   {limit + "test ./other TestMost\n", "no mutant of hack/lint/mutants.txt is of these packages"},
		"without a test":       {limit, "file or test is missing"},
		"that changes nothing": {"file rule/rule.go\n- n\n+ n\ntest ./rule TestMost\n", "the texts are equal"},
		"of an unknown word":   {limit + "tset ./rule TestMost\n", "begins with none of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var printed strings.Builder
			err := run(t.Context(), sample(t, "# a comment\n\n"+test.list), []string{"./rule/..."}, 1, &printed)
			says := printed.String()
			if err != nil {
				says += err.Error()
			}
			if !strings.Contains(says, test.says) || (err == nil) != strings.Contains(test.says, "0 failures") {
				t.Errorf("%v, printed %q; want %q", err, says, test.says)
			}
		})
	}
}

// TestBuildCacheKeepsNoMutant runs two mutants of one rule: the second adds nothing to the cache that the first has read.
func TestBuildCacheKeepsNoMutant(t *testing.T) {
	links, err := linkCache(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(links), "mutants-test-") //nolint:usetesting // it has the file system of the cache
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	cache := filepath.Join(folder, "cache")
	if err := os.Rename(links, cache); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", cache)
	var sizes []int
	for _, limit := range []string{"n < 3", "n < 2"} {
		root := sample(t, "file rule/rule.go\n- n <= 3\n+ "+limit+"\ntest ./rule TestMost\n")
		if err := run(t.Context(), root, []string{"./rule"}, 1, io.Discard); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(folder, "*", "*", "*")) // the pattern is well-formed
		sizes = append(sizes, len(files))
	}
	if sizes[0] == 0 || sizes[1] != sizes[0] {
		t.Errorf("%d files after one mutant, %d after two", sizes[0], sizes[1])
	}
}

func TestPackagesAreSelected(t *testing.T) {
	m := mutant{pkg: "./server/keys/directory"}
	for pattern, selected := range map[string]bool{
		"./...": true, "./server/...": true, "./server/keys/...": true, "./server/keys/directory": true, "./server/keys/directory/...": true,
		"./server/keys": false, "./server/key/...": false, "./api/...": false,
	} {
		if m.selected([]string{pattern}) != selected {
			t.Errorf("%s selects it: %t", pattern, !selected)
		}
	}
}

// TestTheListFitsTheCode holds the repository's list: each mutant changes one place of its file.
func TestTheListFitsTheCode(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "hack", "lint", "mutants.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseMutants(string(text))
	if err != nil {
		t.Fatal(err)
	}
	fit := tester{root: root, overlays: t.TempDir()}
	for _, m := range list {
		if _, err := fit.overlay(&m); err != nil {
			t.Errorf("%s: %v", &m, err)
		}
	}
}
