package httpapi

import (
	"bytes"
	"fmt"
	"testing"

	"examprep.dev/server/catalog"
)

func TestIfNoneMatch(t *testing.T) {
	const etag = `"abc"`
	for condition, want := range map[string]bool{
		``: false, `"abc"`: true, `W/"abc"`: true, `"x", "abc"`: true, `"x" ,W/"abc",`: true, `*`: true,
		`"ab"`: false, `abc`: false, `"abc-br"`: false, `,,`: false,
	} {
		if got := matchesETag([]byte(condition), etag); got != want {
			t.Errorf("%s: %v", condition, got)
		}
	}
}

func TestAcceptEncoding(t *testing.T) {
	for accept, want := range map[string]coding{
		"": codingIdentity, "gzip": codingGzip, "gzip, br": codingBrotli, "gzip, zstd": codingZstd,
		"br;q=0.5, gzip": codingGzip, "br;q=0, gzip;q=0": codingIdentity, "identity": codingIdentity,
		"*": codingIdentity, "GZIP": codingGzip, "gzip;q=x": codingIdentity, "gzip ; q=0.1": codingGzip,
	} {
		if got := acceptedCoding([]byte(accept)); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

func TestCompressionsAreKeptWithinTheirBudget(t *testing.T) {
	calls := 0
	kept := newCompressions()
	kept.budget = 1000
	kept.compressWith = func(coding, []byte) []byte { calls++; return bytes.Repeat([]byte{'x'}, 100) }
	document := func(i int) catalog.Document {
		return catalog.Document{JSON: make([]byte, 2000), ETag: fmt.Sprintf("%q", fmt.Sprint(i))}
	}
	for i := range 100 {
		kept.get(document(i), codingGzip)
		if kept.youngBytes > kept.budget {
			t.Fatalf("%d bytes are kept", kept.youngBytes)
		}
	}
	before := calls
	compressed, smaller := kept.get(document(99), codingGzip)
	if calls != before || !smaller || compressed.ETag != `"99-gzip"` {
		t.Errorf("not kept: %d calls, ETag %s", calls-before, compressed.ETag)
	}
	if kept.get(document(0), codingGzip); calls != before+1 {
		t.Error("what nobody asked for is kept still")
	}
}
