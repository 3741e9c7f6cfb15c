package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func code(page string) []string {
	var found []string
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", " ")) {
		indented, isIndented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			found = append(found, strings.TrimSpace(line))
		case isIndented:
			found = append(found, strings.TrimSpace(indented))
		default:
			for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
				found = append(found, span[1])
			}
		}
	}
	return found
}

// guides returns the code on each page. Design decisions are left out: they describe other states of the repository.
func guides(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for name, text := range textFiles(t, ".md") {
		if !strings.HasPrefix(name, "docs/decisions/") {
			found[name] = code(text)
		}
	}
	return found
}

func TestFilesNamedOnPagesExist(t *testing.T) {
	named := regexp.MustCompile(`^(?:PKG=)?(?:\./)?((?:\.ci|api|charts|config|controllers|docs|examples|hack|runbooks|server)(?:/[\w.*-]+)+/?)$`)
	seen := 0
	for page, lines := range guides(t) {
		for _, line := range lines {
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t'\"`,;:()<>|=", r) }) {
				match := named.FindStringSubmatch(word)
				if match == nil {
					continue
				}
				seen++
				name := strings.TrimSuffix(strings.TrimSuffix(match[1], "/..."), "/")
				fromRoot, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
				check.NoError(t, err)
				fromPage, err := filepath.Glob(filepath.Join(root, filepath.Dir(page), filepath.FromSlash(name)))
				check.NoError(t, err)
				if len(fromRoot)+len(fromPage) == 0 {
					t.Errorf("%s names %s, which does not exist", page, word)
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("%d names of files found; their form has changed", seen)
	}
}

// hasTest reports whether a test of the package in a folder has part of its name.
func hasTest(t *testing.T, folder, part string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
	check.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^func Test\w*` + regexp.QuoteMeta(part))
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		if declared.Match(text) {
			return true
		}
	}
	return false
}

func TestCommandsOnPagesSelectTests(t *testing.T) {
	selections := []*regexp.Regexp{
		regexp.MustCompile(`make test-short PKG=\./(\S+) RUN=(\w+)`),
		regexp.MustCompile(`make test PKG=\./(\S+) TESTFLAGS='[^']*-run (\w+)`),
		regexp.MustCompile(`go test \./(\S+) (?:.* )?-run (\w+)`),
		regexp.MustCompile(`go -C (\S+) test \. (?:.* )?-run (\w+)`),
	}
	seen := 0
	for page, lines := range guides(t) {
		for _, line := range lines {
			for _, selection := range selections {
				for _, match := range selection.FindAllStringSubmatch(line, -1) {
					seen++
					if !hasTest(t, match[1], match[2]) {
						t.Errorf("%s: %q selects no test", page, line)
					}
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("%d commands select tests; their form has changed", seen)
	}
}

// foreignTexts are searched in logs, but belong to libraries.
var foreignTexts = []string{`"level":"ERROR"`, "Reconciler error"}

func TestRunbooksSearchLogsForTextsOfTheCode(t *testing.T) {
	var literals strings.Builder
	for name, text := range textFiles(t, ".go") {
		if (strings.HasPrefix(name, "server/") || strings.HasPrefix(name, "controllers/")) && !strings.HasSuffix(name, "_test.go") {
			for _, literal := range regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`").FindAllString(text, -1) {
				literals.WriteString(literal + "\n")
			}
		}
	}
	search := regexp.MustCompile(`kubectl .* logs .*\| grep (-[iE] )?(?:'([^']+)'|(\w+))`)
	alternative := regexp.MustCompile(`(?:\([^)]*\)|[^|(])+`)
	seen := 0
	for page, lines := range guides(t) {
		for _, line := range lines {
			match := search.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			for _, text := range alternative.FindAllString(match[2]+match[3], -1) {
				seen++
				pattern := text
				if match[1] == "-i " {
					pattern = "(?i)" + text
				}
				if !slices.Contains(foreignTexts, text) && !regexp.MustCompile(pattern).MatchString(literals.String()) {
					t.Errorf("%s searches logs for %q, which no text of the code contains", page, text)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d searches found; their form has changed", seen)
	}
}
