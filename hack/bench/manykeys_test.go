package main

import (
	"bytes"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

func forged(numbers ...uint32) keySet {
	var text strings.Builder
	for _, number := range numbers {
		text.WriteString(forgeKey(number, [2]uint64{uint64(number), 7}))
	}
	return keySet{host: "127.0.0.1:1", text: []byte(text.String())}
}

func TestForgedKeysHaveTheFormOfAKeyAndDifferInTheirPrefix(t *testing.T) {
	prefixes := map[string]bool{}
	for _, number := range []uint32{0, 1, 0x9E3779B1, ^uint32(0)} {
		key := forgeKey(number, [2]uint64{0, ^uint64(0)})
		if !wellFormed(key) {
			t.Errorf("%s has not the form of a key", key)
		}
		prefixes[key[:prefixLength]] = true
	}
	check.Equal(t, len(prefixes), 4, "prefixes of 4 keys")
}

func TestEachKeyIsAskedForOnce(t *testing.T) {
	numbers := make([]uint32, 3*touchClients/2)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	set := forged(numbers...)
	all := set.once()
	asked := map[string]int{}
	for connection := range all.width() {
		for n := 0; ; n++ {
			request := all.request(connection, n)
			if request == nil {
				break
			}
			_, rest, _ := bytes.Cut(request, []byte("Bearer "))
			asked[string(rest[:keyLength])]++
		}
	}
	check.Equal(t, len(asked), set.count(), "keys asked for")
	for key, times := range asked {
		check.Equal(t, times, 1, "requests for %s", key)
	}
}
