package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"

	"github.com/swaggest/swgui/v5/static"

	"examprep.dev/api/openapi"
	"examprep.dev/server/catalog"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the reference page load scripts, styles and data from this server and from nowhere else. The viewer
// brings its icons along as data: URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// getReference sends a part of the reference: the contract, the page that shows it, or what the page loads. Browsers are to
// take it for what it is called, and not to tell others where a reader came from.
func (s *Server) getReference(part string) handler {
	return func(ctx context.Context, r *request) error {
		parts, err := s.reference()
		if err != nil {
			return err
		}
		name := part
		if asset, ok := r.http.UserValue("asset").(string); ok {
			name += asset
		}
		found, known := parts[name]
		if !known {
			return noSuchResource()
		}
		header := &r.http.Response.Header
		if part == docsPath {
			header.Set("Content-Security-Policy", docsPolicy)
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		s.writeRepresentation(ctx, r.http, found)
		return nil
	}
}

const (
	openAPIPath = "/v1/openapi.json"
	docsPath    = "/docs"
	assetsPath  = docsPath + "/"
)

// loadReference converts the contract and unpacks the viewer: Swagger UI, from the module that pins it. The parts are
// called by their paths.
func loadReference() (map[string]representation, error) {
	document, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	parts := map[string]representation{openAPIPath: newReference(document, "application/json")}
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
		content, err := readPacked(file.in, file.path)
		if err != nil {
			return nil, fmt.Errorf("read the reference page's %s: %w", file.path, err)
		}
		parts[file.part] = newReference(content, file.mediaType)
	}
	return parts, nil
}

// newReference makes a part of the reference. Caches may store it but must revalidate, so that page, script and document
// always come from the same release.
func newReference(body []byte, mediaType string) representation {
	return representation{body: body, etag: catalog.ETag(body), mediaType: []byte(mediaType), cache: cachePublic}
}

// readPacked reads a file, unpacked if it is packed.
func readPacked(in fs.FS, name string) ([]byte, error) {
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
