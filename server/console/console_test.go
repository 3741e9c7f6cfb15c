package console

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"examprep.dev/server/testkit/check"
)

// baseOf returns the path of the console's files.
func baseOf(t *testing.T, app *App) string {
	t.Helper()
	base := regexp.MustCompile(`"(/console/assets/[0-9a-f]{20}/)main.js"`).FindSubmatch(app.Document)
	if base == nil {
		t.Fatalf("the document names no entry:\n%s", app.Document)
	}
	return string(base[1])
}

func TestDocumentNamesFilesOfItsBuild(t *testing.T) {
	t.Parallel()
	app, err := Load(Settings{Environment: "sandbox", Contact: "support@example.org"})
	check.NoError(t, err)
	document := string(app.Document)
	named := regexp.MustCompile(`(?:href|src)="(/console/[^"]*)"`).FindAllStringSubmatch(document, -1)
	paths := map[string]int{}
	for _, match := range named {
		if _, ok := app.Files[match[1]]; !ok {
			t.Errorf("the document names %s, which is not served", match[1])
		}
		paths[match[1]]++
	}
	base := baseOf(t, app)
	for path := range app.Files {
		name, ok := strings.CutPrefix(path, base)
		check.Equal(t, ok, true, "%s is below %s", path, base)
		want := map[bool]int{true: 1}[strings.HasSuffix(name, ".js") || name == "console.css" || name == "favicon.svg"]
		if name == "main.js" {
			want = 2 // preloaded and run
		}
		check.Equal(t, paths[path], want, "times that the document names %s", name)
	}
	for _, part := range []string{
		`<!DOCTYPE html>`, `<html lang="en">`, `<meta name="viewport"`, `<div id="app"></div>`, `<noscript>`,
		`<meta name="environment" content="sandbox">`, `<meta name="sign-in-contact" content="support@example.org">`,
		`<link rel="modulepreload" href="` + base + `vendor/preact.js">`,
		`<script type="module" src="` + base + `main.js"></script>`,
	} {
		if !strings.Contains(document, part) {
			t.Errorf("the document lacks %s:\n%s", part, document)
		}
	}
}

func TestContactIsEscaped(t *testing.T) {
	t.Parallel()
	app, err := Load(Settings{Contact: `"><script>alert(1)</script>`})
	check.NoError(t, err)
	if strings.Contains(string(app.Document), "<script>alert") {
		t.Errorf("the contact is part of the page:\n%s", app.Document)
	}
}

func TestFilesAreEmbeddedWithTheirMediaTypes(t *testing.T) {
	t.Parallel()
	app, err := Load(Settings{})
	check.NoError(t, err)
	base := baseOf(t, app)
	for name, want := range map[string]string{
		"main.js":               "text/javascript; charset=utf-8",
		"vendor/preact.js":      "text/javascript; charset=utf-8",
		"vendor/hooks.js":       "text/javascript; charset=utf-8",
		"vendor/htm.js":         "text/javascript; charset=utf-8",
		"console.css":           "text/css; charset=utf-8",
		"favicon.svg":           "image/svg+xml",
		"vendor/LICENSE-preact": "text/plain; charset=utf-8",
		"vendor/LICENSE-htm":    "text/plain; charset=utf-8",
	} {
		file := app.Files[base+name]
		check.Equal(t, file.MediaType, want, "media type of %s", name)
		check.Equal(t, len(file.Body) > 0, true, "%s has a body", name)
	}
	for path := range app.Files {
		check.Equal(t, strings.HasSuffix(path, ".ts"), false, "%s is a declaration", path)
	}
}

func TestHashIsOfAllFiles(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"main.js": {Data: []byte("1")}, "vendor/x.js": {Data: []byte("2")}}
	hash := func() string {
		t.Helper()
		app, err := load(files, Settings{})
		check.NoError(t, err)
		return baseOf(t, app)
	}
	seen := []string{hash()}
	check.Equal(t, hash(), seen[0], "the hash of the same files")
	for name, data := range map[string]string{"main.js": "3", "vendor/x.js": "4", "vendor/y.js": "", "console.css": "5"} {
		files[name] = &fstest.MapFile{Data: []byte(data)}
		if now := hash(); slices.Contains(seen, now) {
			t.Errorf("a change of %s left the hash as it was", name)
		} else {
			seen = append(seen, now)
		}
	}
}
