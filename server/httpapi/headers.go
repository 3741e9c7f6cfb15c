package httpapi

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

// representationHeaders describe a body that an error replaces.
var representationHeaders = [][]byte{headerETag, headerVary, headerContentEncoding}
