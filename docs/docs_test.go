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
)

// root is the repository as seen from this package.
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
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// specParts returns the parts that docs/spec.md has.
func specParts(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "spec.md"))
	if err != nil {
		t.Fatal(err)
	}
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

// testData is a folder next to a checkout, which some tests read.
const testData = "share" + "d/data"

func TestCitationsNameDocumentsOfTheRepository(t *testing.T) {
	parts := specParts(t)
	cited := 0
	for name, text := range textFiles(t, ".go", ".sql", ".yaml", ".lua", ".md") {
		if strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		for _, citation := range foreignCitation.FindAllString(text, -1) {
			if citation != testData {
				t.Errorf("%s cites %q; cite docs/spec.md, part N", name, citation)
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

// anchors returns the anchors of a Markdown page's headings, in GitHub's form.
func anchors(page string) []string {
	var list []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		list = append(list, strings.ReplaceAll(text, " ", "-"))
	}
	return list
}

func TestLinksOfMarkdownPagesResolve(t *testing.T) {
	pages := textFiles(t, ".md")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for name, text := range pages {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") { // a URL
				continue
			}
			links++
			linked := name
			if target != "" {
				linked = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(linked))); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(pages[linked]), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", name, match[1], linked)
			}
		}
	}
	if links < 5 {
		t.Errorf("%d links found; their form has changed", links)
	}
}
