package httpapi

import (
	"context"
	"math"
	"strings"

	"github.com/maypok86/otter/v2"
	"github.com/valyala/fasthttp"
)

const (
	// compressFrom is the size from which compression can save a packet.
	compressFrom = 1400
	// compressionBudget bounds the kept compressions, in bytes.
	compressionBudget = 64 << 20
	// compressionLevel trades the CPU of a first request for the size of all later ones; a document is compressed once
	// per state of the catalogue. It is moderate in each of the three codings.
	compressionLevel = 5
)

func worthCompressing(body []byte) bool { return len(body) >= compressFrom }

// compressions keeps representations in their compressed forms, by ETag. However many ask for one that is missing, it is
// made once. Only what is the same for everyone is compressed. A page of questions would have to be compressed for each
// request: twenty questions of 15 KB shrink to 0.29 of their size by zstd, 0.28 by gzip, 0.26 by brotli
// (BenchmarkCompressQuestionPage), for 7, 8 and 15 times the processor time that a GET of 4 KB takes in all ("make bench").
type compressions struct {
	cache        *otter.Cache[compressionKey, []byte]
	compressWith func(coding, []byte) []byte
}

type compressionKey struct {
	etag   string
	coding coding
}

func newCompressions(budget uint64) *compressions {
	return &compressions{compressWith: compress, cache: otter.Must(&otter.Options[compressionKey, []byte]{
		MaximumWeight: budget,
		Weigher:       func(_ compressionKey, body []byte) uint32 { return uint32(min(len(body), math.MaxUint32)) },
	})}
}

// get returns plain in coding, under an ETag of its own (a strong ETag stands for bytes), and whether it is smaller.
func (c *compressions) get(ctx context.Context, plain representation, coding coding) (compressed representation, smaller bool) {
	key := compressionKey{plain.etag, coding}
	body, kept := c.cache.GetIfPresent(key)
	if !kept {
		var err error
		body, err = c.cache.Get(ctx, key, otter.LoaderFunc[compressionKey, []byte](func(context.Context, compressionKey) ([]byte, error) {
			return c.compressWith(coding, plain.body), nil
		}))
		if err != nil { // the server stops
			return plain, false
		}
	}
	compressed = plain
	compressed.body, compressed.etag = body, strings.TrimSuffix(plain.etag, `"`)+"-"+string(coding)+`"`
	return compressed, len(body) < len(plain.body)
}

func compress(coding coding, body []byte) []byte {
	switch coding {
	case codingBrotli:
		return fasthttp.AppendBrotliBytesLevel(nil, body, compressionLevel)
	case codingZstd:
		return fasthttp.AppendZstdBytesLevel(nil, body, fasthttp.CompressZstdDefault)
	default:
		return fasthttp.AppendGzipBytesLevel(nil, body, compressionLevel)
	}
}
