package httpapi

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog"
)

// writeJSON sends a body that belongs to this one request. The response takes body over.
func writeJSON(ctx *fasthttp.RequestCtx, body []byte) {
	ctx.Response.Header.SetContentTypeBytes(mediaTypeJSON)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheNothing)
	ctx.Response.SetBodyRaw(body)
}

// writeDocument sends a finished document of the catalogue, or 304 when the client has it already. The bytes go out as
// they lie in the snapshot; compressed ones come from the cache of compressions.
func (s *Server) writeDocument(ctx *fasthttp.RequestCtx, document catalog.Document) {
	header := &ctx.Response.Header
	header.SetCanonical(headerCacheControl, cacheRevalidate)
	if worthCompressing(document.JSON) {
		header.SetCanonical(headerVary, varyEncoding)
		if coding := acceptedCoding(ctx.Request.Header.Peek("Accept-Encoding")); coding != codingIdentity {
			if compressed, smaller := s.compressions.get(document, coding); smaller {
				header.SetCanonical(headerContentEncoding, []byte(coding))
				document = compressed
			}
		}
	}
	header.SetCanonical(headerETag, []byte(document.ETag))
	if matchesETag(ctx.Request.Header.Peek("If-None-Match"), document.ETag) {
		header.Del("Content-Encoding") // there is no content
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentTypeBytes(mediaTypeJSON)
	ctx.Response.SetBodyRaw(document.JSON)
}

// matchesETag evaluates If-None-Match (RFC 9110 §13.1.2): "*" or a list, compared weakly.
func matchesETag(condition []byte, etag string) bool {
	for len(condition) > 0 {
		var candidate []byte
		// No ETag of ours has a comma, so one that is split at its comma matches none.
		candidate, condition, _ = bytes.Cut(condition, []byte{','})
		candidate = bytes.TrimPrefix(bytes.TrimSpace(candidate), []byte("W/"))
		if string(candidate) == etag || string(candidate) == "*" {
			return true
		}
	}
	return false
}

// A coding is a Content-Encoding.
type coding string

const (
	codingIdentity coding = ""
	codingBrotli   coding = "br"
	codingZstd     coding = "zstd"
	codingGzip     coding = "gzip"
)

// acceptedCoding picks the coding that the client likes best; of equals the one that is smallest for our documents.
func acceptedCoding(accept []byte) coding {
	best, bestQuality := codingIdentity, 0.0
	if len(accept) == 0 {
		return best
	}
	header := strings.ToLower(string(accept))
	for _, candidate := range [...]coding{codingBrotli, codingZstd, codingGzip} {
		if quality := codingQuality(header, string(candidate)); quality > bestQuality {
			best, bestQuality = candidate, quality
		}
	}
	return best
}

// codingQuality is the q of name in an Accept-Encoding header, 0 when it is not wanted. "*" is not taken as a wish: who
// can decode something says what.
func codingQuality(header, name string) float64 {
	for element := range strings.SplitSeq(header, ",") {
		token, parameters, _ := strings.Cut(element, ";")
		if strings.TrimSpace(token) != name {
			continue
		}
		q, given := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
		if !given {
			return 1
		}
		quality, err := strconv.ParseFloat(q, 64)
		if err != nil {
			return 0
		}
		return quality
	}
	return 0
}
