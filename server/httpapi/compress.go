package httpapi

import (
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

const (
	// compressFrom is the size from which compression can save a packet.
	compressFrom = 1400
	// compressionBudget bounds each of the two generations of kept compressions, in bytes.
	compressionBudget = 32 << 20
	// compressionLevel trades the CPU of a first request for the size of all later ones; a document is compressed once
	// per state of the catalogue. It is moderate in each of the three codings.
	compressionLevel = 5
)

func worthCompressing(body []byte) bool { return len(body) >= compressFrom }

// compressions keeps representations in their compressed forms, by ETag. Only what is the same for everyone is compressed,
// so the work is done once. A page of questions would have to be compressed for each request: twenty questions of 15 KB
// shrink to 0.29 of their size by zstd, 0.28 by gzip, 0.26 by brotli (BenchmarkCompressQuestionPage), for 7, 8 and 15 times
// the processor time that a GET of 4 KB takes in all ("make bench"). Who has slow clients compresses in the proxy.
//
// When one generation is full the older one is dropped, so whatever is in use moves along and memory stays bounded.
type compressions struct {
	mu           sync.RWMutex
	young, old   map[compressionKey][]byte
	youngBytes   int
	budget       int
	compressWith func(coding, []byte) []byte
}

type compressionKey struct {
	etag   string
	coding coding
}

func newCompressions() *compressions {
	return &compressions{young: make(map[compressionKey][]byte), budget: compressionBudget, compressWith: compress}
}

// get returns plain in coding, under an ETag of its own (a strong ETag stands for bytes), and whether it is smaller.
func (c *compressions) get(plain representation, coding coding) (compressed representation, smaller bool) {
	key := compressionKey{plain.etag, coding}
	c.mu.RLock()
	body, young := c.young[key]
	if !young {
		body = c.old[key]
	}
	c.mu.RUnlock()
	if body == nil {
		body = c.compressWith(coding, plain.body)
	}
	if !young {
		c.keep(key, body)
	}
	smaller = len(body) < len(plain.body)
	compressed = plain
	compressed.body, compressed.etag = body, codedETag(plain.etag, coding)
	return compressed, smaller
}

func (c *compressions) keep(key compressionKey, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.young[key]; there {
		return
	}
	if c.youngBytes+len(body) > c.budget {
		c.old, c.young, c.youngBytes = c.young, make(map[compressionKey][]byte), 0
	}
	c.young[key] = body
	c.youngBytes += len(body)
}

func codedETag(etag string, coding coding) string {
	return strings.TrimSuffix(etag, `"`) + "-" + string(coding) + `"`
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
