package httpapi

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	const etag = `"abc"`
	for condition, want := range map[string]bool{
		``: false, `"abc"`: true, `W/"abc"`: true, `"x", "abc"`: true, `"x" ,W/"abc",`: true, `*`: true, ` * `: true,
		"\t\"abc\"": true, `"ab"`: false, `abc`: false, `"abc-br"`: false, `,,`: false, `w/"abc"`: false, `W/`: false,
		`"a,bc"`: false, `"x"|"abc"`: true, `"x"|"y"`: false, `"ABC"`: false, `""`: false, `"abc"x`: false,
	} {
		if got := matchesETag(headerLines(condition), etag); got != want {
			t.Errorf("%s: %v", condition, got)
		}
	}
}

// headerLines are the lines of a field, parted by "|".
func headerLines(lines string) [][]byte { return bytes.Split([]byte(lines), []byte{'|'}) }

func TestAcceptEncoding(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]coding{
		"": codingIdentity, "gzip": codingGzip, "gzip, br": codingBrotli, "gzip, zstd": codingZstd,
		"br;q=0.5, gzip": codingBrotli, "br;q=0, gzip;q=0": codingIdentity, "identity": codingIdentity,
		"GZIP": codingGzip, "gzip ; q=0.1": codingGzip, "gzip;Q=1.000": codingGzip, "gzip;q=0.001": codingGzip,
		"gzip;q=0.9, br;q=0.901": codingBrotli, "deflate, gzip;q=0.3, compress": codingGzip, ",,gzip,": codingGzip,
		"identity|br;q=1": codingBrotli, "gzip;q=0.5|br;q=0.4": codingBrotli,

		// What is no weight is no wish.
		"gzip;q=x": codingIdentity, "gzip;q=": codingIdentity, "gzip;q=2": codingIdentity, "gzip;q=1.1": codingIdentity,
		"gzip;q=inf": codingIdentity, "gzip;q=-1": codingIdentity, "gzip;q=0.0001": codingIdentity, "gzip;level=9": codingIdentity,
		"gzip;q=0,5": codingIdentity, "gzip;q=.5": codingIdentity, "gzip;q=0x1": codingIdentity,

		// Uncompressed may be refused.
		"identity, gzip;q=0.5": codingGzip, "identity;q=0.5, gzip": codingGzip, "gzip, identity": codingGzip,
		"identity;q=0.2, gzip;q=0.2": codingGzip, "*": codingIdentity, "gzip;q=0.1, *": codingGzip,
		"identity;q=0, *": codingBrotli, "identity;q=0, br;q=0, *;q=0.5": codingZstd, "identity;q=0": codingIdentity, "*;q=0": codingIdentity,
	} {
		if got := acceptedCoding(headerLines(accept)); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

func TestCompressionsAreKeptWithinTheirBudget(t *testing.T) {
	t.Parallel()
	const budget = 1000
	calls := 0
	kept := newCompressions(budget)
	kept.compressWith = func(coding, []byte) []byte { calls++; return bytes.Repeat([]byte{'x'}, 100) }
	get := func(i int) (representation, bool) {
		return kept.get(t.Context(), representation{body: make([]byte, 2000), etag: fmt.Sprintf("%q", fmt.Sprint(i))}, codingGzip)
	}
	for i := range 100 {
		get(i)
		kept.cache.CleanUp()
		if size := kept.cache.WeightedSize(); size > budget {
			t.Fatalf("%d bytes are kept", size)
		}
	}
	before := calls
	for range 2 { // what was just made may not have been worth keeping
		get(99)
	}
	if calls > before+1 {
		t.Errorf("not kept: %d calls", calls-before)
	}
	if compressed, smaller := get(99); !smaller || compressed.etag != `"99-gzip"` {
		t.Errorf("ETag %s", compressed.etag)
	}
	before = calls
	for i := range 100 {
		get(i)
		kept.cache.CleanUp()
	}
	if made := calls - before; made < 100-budget/100 {
		t.Errorf("%d of 100 are made anew: more is kept than the budget has room for", made)
	}
}

// TestNotModifiedTellsWhatItStandsFor: a 304 has the fields of its 200 that caches live by (RFC 9110 §15.4.5), and none
// of the content that it lacks.
func TestNotModifiedTellsWhatItStandsFor(t *testing.T) {
	t.Parallel()
	server, _ := newStandInServer(t)
	get := func(coding, condition string) *fasthttp.Response {
		var request fasthttp.Request
		request.SetRequestURI("http://localhost/v1/exam-prep/x/overview")
		request.Header.Set("Accept-Encoding", coding)
		request.Header.Set("If-None-Match", condition)
		var ctx fasthttp.RequestCtx
		ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
		ctx.Response.Header.SetNoDefaultContentType(true) // as the server does
		server.http.Handler(&ctx)
		return &ctx.Response
	}
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		whole := get(coding, "")
		etag := string(whole.Header.Peek("Etag"))
		for _, condition := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			not := get(coding, condition)
			if not.StatusCode() != fasthttp.StatusNotModified || len(not.Body()) > 0 {
				t.Fatalf("%s, If-None-Match %s: %d with %d bytes", coding, condition, not.StatusCode(), len(not.Body()))
			}
			for _, name := range []string{"Etag", "Cache-Control", "Vary"} {
				if got, want := not.Header.Peek(name), whole.Header.Peek(name); len(want) == 0 || !bytes.Equal(got, want) {
					t.Errorf("%s: %s is %q in 304 and %q in 200", coding, name, got, want)
				}
			}
			if len(not.Header.ContentType())+len(not.Header.ContentEncoding()) > 0 {
				t.Errorf("%s: 304 describes content: %s", coding, &not.Header)
			}
		}
		if other := get(coding, etag[:len(etag)-1]+`x"`); other.StatusCode() != fasthttp.StatusOK {
			t.Errorf("%s: %d for another ETag", coding, other.StatusCode())
		}
	}
}
