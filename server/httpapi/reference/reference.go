// Package reference serves the contract (/v1/openapi.json), and a page that shows it (/docs).
package reference

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5/static"
	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the reference page load scripts, styles and data from this server and from nowhere else. The viewer
// brings its icons along as data: URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	openAPIPath = "/v1/openapi.json"
	docsPath    = "/docs"
	assetsPath  = docsPath + "/"
)

// Routes returns the routes of the reference. Its parts are loaded with the first request. Browsers must use a part's media type,
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

// load converts the contract and unpacks the viewer: Swagger UI, from the module that pins it. Caches must revalidate the
// parts, so that page, script and document always come from the same release.
func load() (map[string]codec.Representation, error) {
	parts := make(map[string]codec.Representation)
	add := func(path, mediaType string, body []byte) {
		parts[path] = codec.Representation{Body: body, ETag: read.ETag(body), MediaType: mediaType, Caching: codec.Public}
	}
	document, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	add(openAPIPath, "application/json", document)
	for _, file := range []struct {
		in                    fs.FS
		name, path, mediaType string
	}{
		{docsFiles, "docs/index.html", docsPath, "text/html; charset=utf-8"},
		{docsFiles, "docs/start.js", assetsPath + "start.js", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui-bundle.js.gz", assetsPath + "swagger-ui-bundle.js", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui.css.gz", assetsPath + "swagger-ui.css", "text/css; charset=utf-8"},
		{static.FS, "favicon-32x32.png", assetsPath + "favicon-32x32.png", "image/png"},
	} {
		content, err := readFile(file.in, file.name)
		if err != nil {
			return nil, fmt.Errorf("read the reference page's %s: %w", file.name, err)
		}
		add(file.path, file.mediaType, content)
	}
	return parts, nil
}

// readFile reads a file, and decompresses one that is compressed.
func readFile(in fs.FS, name string) ([]byte, error) {
	content, err := fs.ReadFile(in, name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return content, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}
