package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"path"
)

//go:embed app/*.js app/*.css app/favicon.svg app/vendor/*.js app/vendor/LICENSE-*
var embedded embed.FS

const (
	// Path is the console's first page. Every page's path begins with it.
	Path = "/console/"
	// Assets begins the path of every file. A hash of all files follows.
	Assets = Path + "assets/"

	// Policy is the Content-Security-Policy of the document: it loads and calls this origin only, and makes no script of text.
	Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

// App is the console of this build. Its contents must not be changed.
type App struct {
	// Document is the HTML document of every page.
	Document []byte
	// Files are by path.
	Files map[string]File
}

// File is a script, a style, an image or a licence.
type File struct {
	Body      []byte
	MediaType string
}

// Settings are what the document tells its scripts, so that a page is whole before the first response.
type Settings struct {
	// Environment is production or sandbox.
	Environment string
	// Contact is a text for persons who cannot sign in.
	Contact string
}

// Load returns the console of this build.
func Load(settings Settings) (*App, error) {
	folder, err := fs.Sub(embedded, "app")
	if err != nil {
		return nil, fmt.Errorf("open the console's folder: %w", err)
	}
	return load(folder, settings)
}

func load(folder fs.FS, settings Settings) (*App, error) {
	sum, files := sha256.New(), map[string]File{}
	var modules []string
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fs.ReadFile(folder, name)
		if err != nil {
			return fmt.Errorf("read a file of the console: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(body), body)
		files[name] = File{Body: body, MediaType: mediaType(name)}
		if path.Ext(name) == ".js" {
			modules = append(modules, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's files: %w", err)
	}
	base := Assets + hex.EncodeToString(sum.Sum(nil))[:20] + "/"
	app := &App{Files: make(map[string]File, len(files))}
	for name, file := range files {
		app.Files[base+name] = file
	}
	app.Document, err = document(base, settings, modules)
	return app, err
}

func mediaType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return "text/plain; charset=utf-8"
	}
}

const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Developer console</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="environment" content="{{.Environment}}">
<meta name="sign-in-contact" content="{{.Contact}}">
<link rel="icon" href="{{.Base}}favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{{.Base}}console.css">
{{range .Modules}}<link rel="modulepreload" href="{{$.Base}}{{.}}">
{{end}}<script type="module" src="{{.Base}}main.js"></script>
</head>
<body>
<div id="app"></div>
<noscript>The developer console needs JavaScript. Without it, use the API: <a href="/docs">/docs</a> describes every operation.</noscript>
</body>
</html>
`

// document returns the HTML document. base is the path of its files.
func document(base string, settings Settings, modules []string) ([]byte, error) {
	parsed, err := template.New("page").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("parse the console's document: %w", err)
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, struct {
		Settings
		Base    string
		Modules []string
	}{settings, base, modules})
	if err != nil {
		return nil, fmt.Errorf("write the console's document: %w", err)
	}
	return text.Bytes(), nil
}
