package codec

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"examprep.dev/server/testkit/check"
)

func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	const etag = `"abc"`
	for condition, want := range map[string]bool{
		``: false, `"abc"`: true, `W/"abc"`: true, `"x", "abc"`: true, `"x" ,W/"abc",`: true, `*`: true, ` * `: true,
		"\t\"abc\"": true, `"ab"`: false, `abc`: false, `"abc-br"`: false, `,,`: false, `w/"abc"`: false, `W/`: false,
		`"a,bc"`: false, `"x"|"abc"`: true, `"x"|"y"`: false, `"ABC"`: false, `""`: false, `"abc"x`: false,
	} {
		check.Equal(t, MatchesETag(headerLines(condition), etag), want, "%s", condition)
	}
}

// headerLines are the lines of a field, parted by "|".
func headerLines(lines string) [][]byte { return bytes.Split([]byte(lines), []byte{'|'}) }

func TestAcceptEncoding(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]Coding{
		"": Identity, "gzip": Gzip, "gzip, br": Brotli, "gzip, zstd": Zstd,
		"br;q=0.5, gzip": Brotli, "br;q=0, gzip;q=0": Identity, "identity": Identity,
		"GZIP": Gzip, "gzip ; q=0.1": Gzip, "gzip;Q=1.000": Gzip, "gzip;q=0.001": Gzip,
		"gzip;q=0.9, br;q=0.901": Brotli, "deflate, gzip;q=0.3, compress": Gzip, ",,gzip,": Gzip,
		"identity|br;q=1": Brotli, "gzip;q=0.5|br;q=0.4": Brotli,

		// A malformed weight does not count.
		"gzip;q=x": Identity, "gzip;q=": Identity, "gzip;q=2": Identity, "gzip;q=1.1": Identity,
		"gzip;q=inf": Identity, "gzip;q=-1": Identity, "gzip;q=0.0001": Identity, "gzip;level=9": Identity,
		"gzip;q=0,5": Identity, "gzip;q=.5": Identity, "gzip;q=0x1": Identity,

		// Uncompressed may be refused.
		"identity, gzip;q=0.5": Gzip, "identity;q=0.5, gzip": Gzip, "gzip, identity": Gzip,
		"identity;q=0.2, gzip;q=0.2": Gzip, "*": Identity, "gzip;q=0.1, *": Gzip,
		"identity;q=0, *": Brotli, "identity;q=0, br;q=0, *;q=0.5": Zstd, "identity;q=0": Identity, "*;q=0": Identity,
	} {
		check.Equal(t, AcceptedCoding(headerLines(accept)), want, "%q", accept)
	}
}

// TestBodyIsCompressedOnceForAllThatAskAtOnce: the first compression ends after all requests have begun.
func TestBodyIsCompressedOnceForAllThatAskAtOnce(t *testing.T) {
	t.Parallel()
	const requests = 32
	var calls atomic.Int32
	begun, proceed := make(chan struct{}, requests), make(chan struct{})
	kept := NewCompressor(1 << 20)
	kept.compress = func(Coding, []byte) []byte {
		calls.Add(1)
		<-proceed
		return []byte("compressed")
	}
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			begun <- struct{}{}
			sent, coding := kept.encode(t.Context(), Representation{Body: make([]byte, 2000), ETag: `"1"`}, Brotli)
			if string(sent.Body) != "compressed" || coding != Brotli {
				t.Errorf("got %q in %s", sent.Body, coding)
			}
		})
	}
	for range requests {
		<-begun
	}
	close(proceed)
	all.Wait()
	check.Equal(t, calls.Load(), 1, "times compressed")
}

func TestCompressionsAreKeptWithinTheirBudget(t *testing.T) {
	t.Parallel()
	const budget = 1000
	calls := 0
	kept := NewCompressor(budget)
	kept.compress = func(Coding, []byte) []byte { calls++; return bytes.Repeat([]byte{'x'}, 100) }
	get := func(i int) Representation {
		plain := Representation{Body: make([]byte, 2000), ETag: fmt.Sprintf("%q", fmt.Sprint(i))}
		sent, _ := kept.encode(t.Context(), plain, Gzip)
		return sent
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
	if compressed := get(99); len(compressed.Body) != 100 || compressed.ETag != `"99-gzip"` {
		t.Errorf("ETag %s", compressed.ETag)
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
