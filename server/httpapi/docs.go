package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5/static"
	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the reference page load scripts, styles and data from this server and from nowhere else. The viewer
// brings its icons along as data: URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// reference is the HTTP contract as it is sent: the document, the page that shows it, and what that page loads, by name.
type reference struct {
	document, page representation
	assets         map[string]representation
}

// getOpenAPI sends the contract.
func (s *Server) getOpenAPI(_ context.Context, r *request) error {
	reference, err := s.reference()
	if err != nil {
		return err
	}
	s.writeReference(r.http, reference.document)
	return nil
}

// getDocs sends the page that shows the contract.
func (s *Server) getDocs(_ context.Context, r *request) error {
	reference, err := s.reference()
	if err != nil {
		return err
	}
	r.http.Response.Header.Set("Content-Security-Policy", docsPolicy)
	s.writeReference(r.http, reference.page)
	return nil
}

// getDocsAsset sends what the page loads.
func (s *Server) getDocsAsset(ctx context.Context, r *request) error {
	reference, err := s.reference()
	if err != nil {
		return err
	}
	name, _ := r.http.UserValue("asset").(string)
	asset, known := reference.assets[name]
	if !known {
		return notFound(ctx, r)
	}
	s.writeReference(r.http, asset)
	return nil
}

// writeReference sends a part of the reference. Browsers are to take it for what it is called, and not to tell others
// where a reader came from.
func (s *Server) writeReference(ctx *fasthttp.RequestCtx, part representation) {
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
	s.writeRepresentation(ctx, part)
}

// loadReference converts the contract and unpacks the viewer: Swagger UI, from the module that pins it.
func loadReference() (*reference, error) {
	document, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	loaded := &reference{document: newReference(document, "application/json"), assets: make(map[string]representation)}
	for _, file := range []struct {
		in              fs.FS
		path, mediaType string
	}{
		{docsFiles, "docs/index.html", "text/html; charset=utf-8"},
		{docsFiles, "docs/start.js", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8"},
		{static.FS, "swagger-ui.css.gz", "text/css; charset=utf-8"},
		{static.FS, "favicon-32x32.png", "image/png"},
	} {
		content, err := readPacked(file.in, file.path)
		if err != nil {
			return nil, fmt.Errorf("read the reference page's %s: %w", file.path, err)
		}
		name := strings.TrimSuffix(path.Base(file.path), ".gz")
		loaded.assets[name] = newReference(content, file.mediaType)
	}
	loaded.page = loaded.assets["index.html"]
	delete(loaded.assets, "index.html")
	return loaded, nil
}

// newReference makes a part of the reference. Everybody may keep it; that everybody asks each time whether it still holds
// is what makes page, script and document of one release meet.
func newReference(body []byte, mediaType string) representation {
	sum := sha256.Sum256(body)
	return representation{
		body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, mediaType: []byte(mediaType), cache: cachePublic,
	}
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
