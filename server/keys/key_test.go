package keys

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/testkit/check"
)

const sample = "service_00000000000000000000000000000000000000005176df86"

func TestParseTakesKeysAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		presented string
		want      bool
	}{
		"a key":              {sample, true},
		"empty":              {"", false},
		"scheme alone":       {"service_", false},
		"another scheme":     {"Service_" + sample[8:], false},
		"one digit short":    {sample[:55], false},
		"one digit more":     {sample + "0", false},
		"capital digits":     {strings.ToUpper(sample[8:]), false},
		"capital check":      {sample[:48] + "5176DF86", false},
		"not a digit":        {sample[:20] + "g" + sample[21:], false},
		"not a digit, check": {sample[:55] + "g", false},
		"two digits swapped": {sample[:52] + "fd86", false},
		"one digit wrong":    {sample[:10] + "1" + sample[11:], false},
		"space around":       {" " + sample[:55], false},
	} {
		t.Run(name, func(t *testing.T) {
			hash, ok := Parse([]byte(c.presented))
			if ok != c.want {
				t.Fatalf("got %v", ok)
			}
			if ok && hash != sha256.Sum256([]byte(c.presented)) {
				t.Error("the hash is not that of the text")
			}
		})
	}
}

func TestADigitInUpperCaseIsNoneThoughTheCheckFits(t *testing.T) {
	t.Parallel()
	for at := range randomDigits {
		body := []byte(Scheme + strings.Repeat("0", randomDigits))
		for digit, want := range map[byte]bool{'a': true, 'A': false} {
			body[len(Scheme)+at] = digit
			if _, ok := Parse(fmt.Appendf(nil, "%s%08x", body, crc32.ChecksumIEEE(body))); ok != want {
				t.Errorf("%q at %d: got %v", digit, at, ok)
			}
		}
	}
}

func TestWhatIsGeneratedParses(t *testing.T) {
	t.Parallel()
	for range 1000 {
		key := generate()
		if _, ok := Parse([]byte(key)); !ok || len(key) != Length || PrefixLength != 16 {
			t.Fatalf("got %q", key)
		}
	}
}

func TestAnyChangeOfOneByteIsNoticed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := []byte(generate())
		at := rapid.IntRange(0, len(key)-1).Draw(t, "at")
		key[at] ^= rapid.ByteRange(1, 255).Draw(t, "difference")
		if _, ok := Parse(key); ok {
			t.Fatalf("accepted %q", key)
		}
	})
}

func TestParseAllocatesNothing(t *testing.T) {
	key := []byte(sample)
	check.Equal(t, testing.AllocsPerRun(100, func() { Parse(key) }), 0, "allocations")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("service_"))
	f.Add([]byte(strings.Repeat("0", Length)))
	f.Fuzz(func(t *testing.T, presented []byte) {
		hash, ok := Parse(presented)
		if !ok {
			check.Equal(t, hash, Hash{}, "a hash of what is no key")
			return
		}
		if len(presented) != Length || string(presented) != strings.ToLower(string(presented)) || hash != sha256.Sum256(presented) {
			t.Errorf("accepted %q", presented)
		}
	})
}
