package httpapi

// Header names as they go out. They are set as they are written here: fasthttp's own spelling of "RateLimit-Limit" and
// "ETag" would differ from the documents that define them.
var (
	headerRequestID       = []byte("x-request-id")
	headerRateLimit       = []byte("RateLimit-Limit")
	headerRateRemaining   = []byte("RateLimit-Remaining")
	headerRateReset       = []byte("RateLimit-Reset")
	headerRatePolicy      = []byte("RateLimit-Policy")
	headerRetryAfter      = []byte("Retry-After")
	headerWWWAuthenticate = []byte("WWW-Authenticate")
	headerCacheControl    = []byte("Cache-Control")
	headerETag            = []byte("ETag")
	headerVary            = []byte("Vary")
	headerContentEncoding = []byte("Content-Encoding")

	mediaTypeJSON   = []byte("application/json")
	challengeBearer = []byte("Bearer")
	// cacheRevalidate: keep it, but ask each time. A republished exam must be seen at once, and a 304 costs next to
	// nothing.
	cacheRevalidate = []byte("private, no-cache")
	cacheNothing    = []byte("no-store")
	varyEncoding    = []byte("Accept-Encoding")
)

// representationHeaders describe a body that an error replaces. ("Etag" is how fasthttp looks a name up to delete it.)
var representationHeaders = [][]byte{headerETag, headerVary, headerContentEncoding}
