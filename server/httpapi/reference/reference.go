// Package reference serves the contract (/v1/openapi.json), and a page that shows it (/docs).
package reference

import (
	"context"
	"embed"
	"fmt"
	"sync"

	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the page load scripts and styles from this server and nothing else. Its icon is an empty data: URL.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	openAPIPath = "/v1/openapi.json"
	docsPath    = "/docs"
	assetsPath  = docsPath + "/"
)

// Routes returns the routes of the reference. It loads the parts with the first request. Browsers must use a part's media type,
// and not tell others where a reader came from.
func Routes(compressor *codec.Compressor) []endpoint.Route {
	parts := sync.OnceValues(load)
	get := func(ctx context.Context, r *endpoint.Request) error {
		byPath, err := parts()
		if err != nil {
			return err
		}
		path := string(r.HTTP.Request.URI().PathOriginal())
		part, known := byPath[path]
		if !known {
			return apierror.NotFound()
		}
		header := &r.HTTP.Response.Header
		if path == docsPath {
			header.Set("Content-Security-Policy", docsPolicy)
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		compressor.Send(ctx, r.HTTP, part)
		return nil
	}
	route := func(path, operation string) endpoint.Route {
		return endpoint.Route{Method: fasthttp.MethodGet, Path: path, Operation: operation, Access: endpoint.Open, Handle: get}
	}
	return []endpoint.Route{route(openAPIPath, "getOpenAPI"), route(docsPath, "getDocs"), route(assetsPath+"{asset}", "getDocs")}
}

// load returns the parts by path. Caches must revalidate them, so that page, script and document always come from the same
// release.
func load() (map[string]codec.Representation, error) {
	parts := make(map[string]codec.Representation)
	add := func(path, mediaType string, body []byte) {
		parts[path] = codec.Representation{Body: body, ETag: read.ETag(body), MediaType: mediaType, Caching: codec.Public}
	}
	add(openAPIPath, "application/json", openapi.JSON())
	for _, file := range []struct{ name, path, mediaType string }{
		{"index.html", docsPath, "text/html; charset=utf-8"},
		{"docs.js", assetsPath + "docs.js", "text/javascript; charset=utf-8"},
		{"docs.css", assetsPath + "docs.css", "text/css; charset=utf-8"},
	} {
		content, err := docsFiles.ReadFile("docs/" + file.name)
		if err != nil {
			return nil, fmt.Errorf("read the reference page's %s: %w", file.name, err)
		}
		add(file.path, file.mediaType, content)
	}
	return parts, nil
}
