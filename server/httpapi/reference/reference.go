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
	"sync"

	"github.com/swaggest/swgui/v5/static"
	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/server/catalog"
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

// site has the representations by path. They are loaded with the first request.
type site struct {
	load       func() (map[string]endpoint.Representation, error)
	compressor *codec.Compressor
}

// Routes returns the routes of the reference.
func Routes(compressor *codec.Compressor) []endpoint.Route {
	s := &site{load: sync.OnceValues(load), compressor: compressor}
	route := func(path, operation string, handle endpoint.Handler) endpoint.Route {
		return endpoint.Route{Method: fasthttp.MethodGet, Path: path, Operation: operation, Access: endpoint.Open, Handle: handle}
	}
	return []endpoint.Route{
		route(openAPIPath, "getOpenAPI", s.get(openAPIPath)),
		route(docsPath, "getDocs", s.get(docsPath)),
		route(assetsPath+"{asset}", "getDocs", s.get(assetsPath)),
	}
}

// get sends the part at a path, or at a path and the name of an asset. Browsers must use its media type, and not tell others
// where a reader came from.
func (s *site) get(path string) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		parts, err := s.load()
		if err != nil {
			return err
		}
		name := path
		if asset, ok := r.HTTP.UserValue("asset").(string); ok {
			name += asset
		}
		found, known := parts[name]
		if !known {
			return apierror.NotFound()
		}
		header := &r.HTTP.Response.Header
		if path == docsPath {
			header.Set("Content-Security-Policy", docsPolicy)
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		r.Represent(ctx, s.compressor, found)
		return nil
	}
}

// load converts the contract and unpacks the viewer: Swagger UI, from the module that pins it. The parts are
// called by their paths.
func load() (map[string]endpoint.Representation, error) {
	document, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	parts := map[string]endpoint.Representation{openAPIPath: newPart(document, "application/json")}
	for _, file := range []struct {
		in                    fs.FS
		path, part, mediaType string
	}{
		{docsFiles, "docs/index.html", docsPath, "text/html; charset=utf-8"},
		{docsFiles, "docs/start.js", assetsPath + "start.js", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui-bundle.js.gz", assetsPath + "swagger-ui-bundle.js", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui.css.gz", assetsPath + "swagger-ui.css", "text/css; charset=utf-8"},
		{static.FS, "favicon-32x32.png", assetsPath + "favicon-32x32.png", "image/png"},
	} {
		content, err := readGzip(file.in, file.path)
		if err != nil {
			return nil, fmt.Errorf("read the reference page's %s: %w", file.path, err)
		}
		parts[file.part] = newPart(content, file.mediaType)
	}
	return parts, nil
}

// newPart returns a part of the reference. Caches may store it but must revalidate, so that page, script and document always
// come from the same release.
func newPart(body []byte, mediaType string) endpoint.Representation {
	return endpoint.Representation{Body: body, ETag: catalog.ETag(body), MediaType: mediaType, Public: true}
}

// readGzip reads a file, and decompresses one that is compressed.
func readGzip(in fs.FS, name string) ([]byte, error) {
	content, err := fs.ReadFile(in, name)
	if err != nil || !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}
