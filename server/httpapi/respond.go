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

// writeDocument sends a finished document of the catalogue, as it lies in the snapshot.
func (s *Server) writeDocument(ctx *fasthttp.RequestCtx, document catalog.Document) {
	s.writeRepresentation(ctx, representation{document.JSON, document.ETag, mediaTypeJSON, cacheRevalidate})
}

// A representation is what is sent of something that is there already, the same for everyone who may read it.
type representation struct {
	body []byte
	// etag is strong, with its quotes.
	etag      string
	mediaType []byte
	// cache is the Cache-Control that it is sent with.
	cache []byte
}

// writeRepresentation sends what is asked for, or 304 when the client has it already; compressed, from the cache of
// compressions, where that is worth it.
func (s *Server) writeRepresentation(ctx *fasthttp.RequestCtx, sent representation) {
	header := &ctx.Response.Header
	header.SetCanonical(headerCacheControl, sent.cache)
	if worthCompressing(sent.body) {
		header.SetCanonical(headerVary, varyEncoding)
		if coding := acceptedCoding(ctx.Request.Header.PeekAll("Accept-Encoding")); coding != codingIdentity {
			if compressed, smaller := s.compressions.get(sent, coding); smaller {
				header.SetCanonical(headerContentEncoding, []byte(coding))
				sent = compressed
			}
		}
	}
	header.SetCanonical(headerETag, []byte(sent.etag))
	if matchesETag(ctx.Request.Header.PeekAll("If-None-Match"), sent.etag) {
		header.Del("Content-Encoding") // there is no content
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentTypeBytes(sent.mediaType)
	ctx.Response.SetBodyRaw(sent.body)
}
