package httpapi

import "github.com/valyala/fasthttp"

// Header names as they go out. They are set as they are written here: fasthttp's own spelling of "RateLimit-Limit" would
// differ from the document that defines it.
var (
	headerRequestID       = []byte("x-request-id")
	headerRateLimit       = []byte("RateLimit-Limit")
	headerRateRemaining   = []byte("RateLimit-Remaining")
	headerRateReset       = []byte("RateLimit-Reset")
	headerRatePolicy      = []byte("RateLimit-Policy")
	headerRetryAfter      = []byte("Retry-After")
	headerWWWAuthenticate = []byte("WWW-Authenticate")
	headerCacheControl    = []byte("Cache-Control")
	headerETag            = []byte("Etag") // fasthttp's spelling: it deletes no other
	headerVary            = []byte("Vary")
	headerContentEncoding = []byte("Content-Encoding")

	mediaTypeJSON   = []byte("application/json")
	challengeBearer = []byte("Bearer")
	// cacheRevalidate: keep it, but ask each time. A republished exam must be seen at once, and a 304 costs next to
	// nothing.
	cacheRevalidate = []byte("private, no-cache")
	// cachePublic is the same for what is no key's: one copy serves all.
	cachePublic  = []byte("public, no-cache")
	cacheNothing = []byte("no-store")
	varyEncoding = []byte("Accept-Encoding")
)

// The fields that most requests are asked for, as fasthttp spells them. Looked up by any other name, each would be spelled
// anew for each request, which costs more than the looking up.
var (
	fieldAuthorization  = []byte("Authorization")
	fieldRequestID      = []byte("X-Request-Id")
	fieldExpect         = []byte("Expect")
	fieldAcceptEncoding = []byte("Accept-Encoding")
	fieldIfNoneMatch    = []byte("If-None-Match")
)

// fieldLines returns the value of each line of a field.
func fieldLines(header *fasthttp.RequestHeader, field []byte) [][]byte {
	if header.PeekCanonical(field) == nil { // not of a line that is there, even if it is empty
		return nil
	}
	return header.PeekAll(string(field))
}

// representationHeaders describe a body that an error replaces.
var representationHeaders = [][]byte{headerETag, headerVary, headerContentEncoding}
