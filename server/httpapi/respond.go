package httpapi

import (
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
		if coding := acceptedCoding(ctx.Request.Header.PeekAll("Accept-Encoding")); coding != codingIdentity {
			if compressed, smaller := s.compressions.get(document, coding); smaller {
				header.SetCanonical(headerContentEncoding, []byte(coding))
				document = compressed
			}
		}
	}
	header.SetCanonical(headerETag, []byte(document.ETag))
	if matchesETag(ctx.Request.Header.PeekAll("If-None-Match"), document.ETag) {
		header.Del("Content-Encoding") // there is no content
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentTypeBytes(mediaTypeJSON)
	ctx.Response.SetBodyRaw(document.JSON)
}
