package httpapi

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog"
)

// writeJSON sends a body that belongs to this one request. The response takes body over.
func writeJSON(ctx *fasthttp.RequestCtx, body []byte) {
	ctx.Response.Header.SetContentTypeBytes(mediaTypeJSON)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheNothing)
	ctx.Response.SetBodyRaw(body)
}

// writeValue sends v as JSON.
func writeValue(ctx *fasthttp.RequestCtx, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	writeJSON(ctx, body)
	ctx.SetStatusCode(status)
	return nil
}

// writeNothing sends 204, unless err says why there is another answer.
func writeNothing(ctx *fasthttp.RequestCtx, err error) error {
	if err == nil {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// redirect sends the browser to address, to be read there.
func redirect(ctx *fasthttp.RequestCtx, address string) {
	ctx.Response.Header.Set("Location", address)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheNothing)
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// writeDocument sends a finished document of the catalogue, as it lies in the snapshot.
func (s *Server) writeDocument(ctx context.Context, r *request, document catalog.Document) {
	s.writeRepresentation(ctx, r.http, representation{document.JSON, document.ETag, mediaTypeJSON, cacheRevalidate})
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
func (s *Server) writeRepresentation(life context.Context, ctx *fasthttp.RequestCtx, sent representation) {
	header := &ctx.Response.Header
	header.SetCanonical(headerCacheControl, sent.cache)
	if worthCompressing(sent.body) {
		header.SetCanonical(headerVary, varyEncoding)
		if coding := acceptedCoding(fieldLines(&ctx.Request.Header, fieldAcceptEncoding)); coding != codingIdentity {
			if compressed, smaller := s.compressions.get(life, sent, coding); smaller {
				header.SetCanonical(headerContentEncoding, []byte(coding))
				sent = compressed
			}
		}
	}
	header.SetCanonical(headerETag, []byte(sent.etag))
	if matchesETag(fieldLines(&ctx.Request.Header, fieldIfNoneMatch), sent.etag) {
		header.Del("Content-Encoding") // there is no content
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentTypeBytes(sent.mediaType)
	ctx.Response.SetBodyRaw(sent.body)
}
