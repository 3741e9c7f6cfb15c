package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const root = ".."

// textFiles returns the repository's files that have one of the extensions, by path from the root. It leaves out
// directories that Git ignores.
func textFiles(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	ignored := []string{".git", ".dev", "bin", "dist", "node_modules"}
	found := make(map[string]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignored, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, path.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		found[name] = string(text)
		return err
	})
	check.NoError(t, err)
	return found
}

func specParts(t *testing.T) map[string]bool {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join(root, "docs", "spec.md"))
	parts := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^## Part ([0-9]+)\. `).FindAllStringSubmatch(string(text), -1) {
		parts[match[1]] = true
	}
	return parts
}

// The brackets around single letters keep these expressions from matching themselves.
var (
	foreignCitation = regexp.MustCompile(`\bDESIG[N]\b|(?i:\b[s]pec(?:ification)?(?:'s)?,? parts? [0-9]|\b[p]arts? [0-9]+ of the spec)|\bshare[d]/\w*`)
	specCitation    = regexp.MustCompile(`docs/spec\.md, parts? ([0-9]+)(?:(?:, | and | to )([0-9]+))?`)
)

// mayCite reports whether a line has a word of a foreign citation. The expression is slow, and matches no line without one.
func mayCite(line string) bool {
	return strings.Contains(line, "DESIG") || strings.Contains(line, "share") || strings.Contains(strings.ToLower(line), "part")
}

// testData is a folder next to a checkout, which some tests read.
const testData = "share" + "d/data"

func TestCitationsNameDocumentsOfTheRepository(t *testing.T) {
	parts := specParts(t)
	cited := 0
	for name, text := range textFiles(t, ".go", ".sql", ".yaml", ".lua", ".md") {
		if strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		for line := range strings.Lines(text) {
			if !mayCite(line) {
				continue
			}
			for _, citation := range foreignCitation.FindAllString(line, -1) {
				check.Equal(t, citation, testData, "%s does not cite docs/spec.md, part N", name)
			}
		}
		for _, match := range specCitation.FindAllStringSubmatch(text, -1) {
			cited++
			for _, part := range match[1:] {
				if part != "" && !parts[part] {
					t.Errorf("%s cites %q, but docs/spec.md has no part %s", name, match[0], part)
				}
			}
		}
	}
	if cited < 20 {
		t.Errorf("%d citations of docs/spec.md found; their form has changed", cited)
	}
}

func anchors(page string) []string {
	var list []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		list = append(list, strings.ReplaceAll(text, " ", "-"))
	}
	return list
}

// links returns the pages, files and folders of the repository that a page links to, with their anchors.
func links(name, text string) (targets, anchored []string) {
	for _, match := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(match[1], "#")
		if strings.Contains(target, ":") { // a URL
			continue
		}
		linked := name
		if target != "" {
			linked = path.Join(path.Dir(name), target)
		}
		targets, anchored = append(targets, linked), append(anchored, anchor)
	}
	return targets, anchored
}

func TestLinksOfMarkdownPagesResolve(t *testing.T) {
	pages := textFiles(t, ".md")
	followed := 0
	for name, text := range pages {
		targets, anchored := links(name, text)
		for i, target := range targets {
			followed++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
				continue
			}
			if anchored[i] != "" && !slices.Contains(anchors(pages[target]), anchored[i]) {
				t.Errorf("%s links to %s#%s, but %s has no such heading", name, target, anchored[i], target)
			}
		}
	}
	if followed < 40 {
		t.Errorf("%d links found; their form has changed", followed)
	}
}

func TestReadmeLeadsToEveryPage(t *testing.T) {
	pages := textFiles(t, ".md")
	reached, waiting := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(waiting) > 0 {
		name := waiting[0]
		waiting = waiting[1:]
		targets, _ := links(name, pages[name])
		for _, target := range targets {
			for page := range pages {
				if (page == target || path.Dir(page) == target) && !reached[page] {
					reached[page] = true
					waiting = append(waiting, page)
				}
			}
		}
	}
	for name := range pages {
		if strings.Contains(name, "/runbooks/") || strings.Contains(name, "/testdata/") {
			continue // alerts lead to runbooks
		}
		if !reached[name] {
			t.Errorf("no link leads from README.md to %s", name)
		}
	}
	for _, name := range []string{"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/operations.md"} {
		if !reached[name] {
			t.Errorf("README.md does not lead to %s", name)
		}
	}
}

// A guide has one subject, and is read at once.
func TestGuidesHaveFewerThan120Lines(t *testing.T) {
	for _, name := range []string{
		"quickstart-api", "install", "install-manifests", "operations", "sizing", "scaling", "backup", "failures", "accounts", "architecture",
	} {
		text := string(testkit.ReadFile(t, filepath.Join(root, "docs", name+".md")))
		if lines := strings.Count(text, "\n"); lines >= 120 {
			t.Errorf("docs/%s.md has %d lines", name, lines)
		}
	}
}
