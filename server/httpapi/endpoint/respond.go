package endpoint

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/codec"
)

const (
	mediaTypeJSON = "application/json"
	noStore       = "no-store"
)

// Value sends v as JSON.
func (r *Request) Value(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	r.Raw(body)
	r.HTTP.SetStatusCode(status)
	return nil
}

// Raw sends a body of JSON, and takes it over. The status is 200.
func (r *Request) Raw(body []byte) {
	r.HTTP.Response.Header.SetContentType(mediaTypeJSON)
	r.HTTP.Response.Header.Set(fasthttp.HeaderCacheControl, noStore)
	r.HTTP.Response.SetBodyRaw(body)
}

// NoContent sends 204 if err is nil, else it returns err.
func (r *Request) NoContent(err error) error {
	if err == nil {
		r.HTTP.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// Redirect sends a browser to an address (303).
func (r *Request) Redirect(address string) {
	r.HTTP.Response.Header.Set(fasthttp.HeaderLocation, address)
	r.HTTP.Response.Header.Set(fasthttp.HeaderCacheControl, noStore)
	r.HTTP.SetStatusCode(fasthttp.StatusSeeOther)
}

// Representation is a body that is the same for all clients that may read it.
type Representation struct {
	Body []byte
	// ETag is strong, with its quotes.
	ETag      string
	MediaType string
	// Public admits shared caches. All caches must revalidate: a republished exam is seen at once.
	Public bool
}

// Represent sends a representation, or 304 if the client has it. It is compressed if that is worth it.
func (r *Request) Represent(ctx context.Context, compressor *codec.Compressor, sent Representation) {
	request, header := &r.HTTP.Request.Header, &r.HTTP.Response.Header
	cache := "private, no-cache"
	if sent.Public {
		cache = "public, no-cache"
	}
	header.Set(fasthttp.HeaderCacheControl, cache)
	variant := codec.Variant{Body: sent.Body, ETag: sent.ETag}
	if codec.Compressible(sent.Body) {
		header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		variant = compressor.Variant(ctx, variant, fieldLines(request, fasthttp.HeaderAcceptEncoding))
	}
	header.Set(fasthttp.HeaderETag, variant.ETag)
	if codec.MatchesETag(fieldLines(request, fasthttp.HeaderIfNoneMatch), variant.ETag) {
		r.HTTP.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	if variant.Coding != codec.Identity {
		header.Set(fasthttp.HeaderContentEncoding, string(variant.Coding))
	}
	header.SetContentType(sent.MediaType)
	r.HTTP.Response.SetBodyRaw(variant.Body)
}

// fieldLines returns the value of each line of a field, which is spelled as fasthttp spells it.
func fieldLines(header *fasthttp.RequestHeader, field string) [][]byte {
	if header.Peek(field) == nil { // it has no line, not even an empty one
		return nil
	}
	return header.PeekAll(field)
}
