package codec

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/maypok86/otter/v2"
	"github.com/valyala/fasthttp"
)

const (
	// compressFrom is the size in bytes from which compression can save a packet.
	compressFrom = 1400
	// compressionLevel is moderate in each coding: a body is compressed once per state of the catalogue.
	compressionLevel = 5
)

// Representation is a body that is the same for all clients that may read it.
type Representation struct {
	Body      []byte
	ETag      string // strong, with its quotes
	MediaType string
	Caching   Caching
}

// Caching is a Cache-Control. The zero value is Private.
type Caching string

// The kinds of caching. All caches of a Private or Public body must revalidate, so a republished exam is seen at once. A Forever
// body never changes at its address.
const (
	Private Caching = "private, no-cache"
	Public  Caching = "public, no-cache"
	Forever Caching = "public, max-age=31536000, immutable"
	Never   Caching = "no-store"
)

// Compressor keeps bodies in their compressed forms, by ETag. A form that is missing is made once, however many requests ask
// for it. Only a body that is the same for all clients is compressed: zstd takes 7 times the CPU of a GET of 4 KB for a page of
// twenty questions, gzip 8 times, brotli 15 times (BenchmarkCompressQuestionPage).
type Compressor struct {
	cache    *otter.Cache[[2]string, []byte] // by ETag and coding
	compress func(Coding, []byte) []byte
}

// NewCompressor returns a compressor that keeps at most budget bytes.
func NewCompressor(budget uint64) *Compressor {
	return &Compressor{compress: compress, cache: otter.Must(&otter.Options[[2]string, []byte]{
		MaximumWeight: budget,
		Weigher:       func(_ [2]string, body []byte) uint32 { return uint32(min(len(body), math.MaxUint32)) },
	})}
}

// Send sends a representation, or 304 if the client has it. It is compressed if that is worth it.
func (c *Compressor) Send(ctx context.Context, http *fasthttp.RequestCtx, sent Representation) {
	request, header := &http.Request.Header, &http.Response.Header
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), []byte(cmp.Or(sent.Caching, Private)))
	coding := Identity
	if len(sent.Body) >= compressFrom {
		header.SetCanonical([]byte(fasthttp.HeaderVary), []byte(fasthttp.HeaderAcceptEncoding))
		sent, coding = c.encode(ctx, sent, AcceptedCoding(request.PeekAll(fasthttp.HeaderAcceptEncoding)))
	}
	header.SetCanonical([]byte("Etag"), []byte(sent.ETag)) // in fasthttp's spelling
	if MatchesETag(request.PeekAll(fasthttp.HeaderIfNoneMatch), sent.ETag) {
		http.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	if coding != Identity {
		header.Set(fasthttp.HeaderContentEncoding, string(coding))
	}
	header.SetContentType(sent.MediaType)
	http.Response.SetBodyRaw(sent.Body)
}

// encode returns a representation in a coding, if it is smaller so. Its ETag is another one, because a strong ETag names bytes.
func (c *Compressor) encode(ctx context.Context, plain Representation, coding Coding) (Representation, Coding) {
	if coding == Identity {
		return plain, Identity
	}
	load := func(context.Context, [2]string) ([]byte, error) { return c.compress(coding, plain.Body), nil }
	body, err := c.cache.Get(ctx, [2]string{plain.ETag, string(coding)}, otter.LoaderFunc[[2]string, []byte](load))
	if err != nil || len(body) >= len(plain.Body) { // it fails if the server stops
		return plain, Identity
	}
	plain.Body, plain.ETag = body, strings.TrimSuffix(plain.ETag, `"`)+"-"+string(coding)+`"`
	return plain, coding
}

func compress(coding Coding, body []byte) []byte {
	switch coding {
	case Brotli:
		return fasthttp.AppendBrotliBytesLevel(nil, body, compressionLevel)
	case Zstd:
		return fasthttp.AppendZstdBytesLevel(nil, body, fasthttp.CompressZstdDefault)
	default:
		return fasthttp.AppendGzipBytesLevel(nil, body, compressionLevel)
	}
}

// Coding is a Content-Encoding.
type Coding string

// The codings, in the order of preference.
const (
	Identity Coding = ""
	Brotli   Coding = "br"
	Zstd     Coding = "zstd"
	Gzip     Coding = "gzip"
)

// AcceptedCoding returns the first of br, zstd and gzip that Accept-Encoding names with a weight other than 0 (RFC 9110
// §12.5.3). The first has the smallest documents. "*" counts only if the uncompressed form is refused.
func AcceptedCoding(lines [][]byte) Coding {
	if len(lines) == 0 {
		return Identity
	}
	identity, named := accepts(lines, "identity")
	anything, _ := accepts(lines, "*")
	anything = anything && named && !identity
	for _, candidate := range [...]Coding{Brotli, Zstd, Gzip} {
		if accepted, named := accepts(lines, string(candidate)); accepted || anything && !named {
			return candidate
		}
	}
	return Identity
}

// accepts reports whether a coding is named, and with a weight other than 0.
func accepts(lines [][]byte, name string) (accepted, named bool) {
	for _, line := range lines {
		for element := range bytes.SplitSeq(line, []byte{','}) {
			token, weight, weighed := bytes.Cut(element, []byte{';'})
			if bytes.EqualFold(bytes.Trim(token, " \t"), []byte(name)) {
				return !weighed || isWeight(bytes.Trim(weight, " \t")), true
			}
		}
	}
	return false, false
}

// isWeight reports whether text is "q=0.5" or the like (RFC 9110 §12.4.2): at most three decimals, at most 1, not 0.
func isWeight(text []byte) bool {
	if len(text) < len("q=0") || len(text) > len("q=0.000") || text[0]|0x20 != 'q' || text[1] != '=' || text[2] != '0' && text[2] != '1' {
		return false
	}
	weight, err := strconv.ParseFloat(string(text[2:]), 64)
	return err == nil && weight > 0 && weight <= 1
}

// MatchesETag evaluates If-None-Match (RFC 9110 §13.1.2): "*" or a list, compared weakly. A list can be on several lines.
func MatchesETag(lines [][]byte, etag string) bool {
	for _, line := range lines {
		// No ETag here has a comma, so one that is split at its comma matches none.
		for candidate := range bytes.SplitSeq(line, []byte{','}) {
			candidate = bytes.TrimPrefix(bytes.Trim(candidate, " \t"), []byte("W/"))
			if string(candidate) == etag || string(candidate) == "*" {
				return true
			}
		}
	}
	return false
}
