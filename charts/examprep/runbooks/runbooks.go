// Package runbooks serves the page of each alert, and README.md, their index. The pages are files of the Helm chart, and each
// process embeds them: so the address in an alert leads to the page of the installed version.
package runbooks

import (
	"cmp"
	"embed"
	"net/http"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Serve writes the page that the request's path value "page" names, with or without .md, as plain text. Without a name it
// writes the index.
func Serve(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(strings.TrimSuffix(r.PathValue("page"), ".md"), "README")
	text, err := pages.ReadFile(name + ".md")
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) //nolint:gosec // an embedded page, as plain text; the client may have closed the connection
}
