package main

import (
	"bytes"
	"strings"
	"testing"
)

// forged returns a set of keys with these numbers.
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
	if len(prefixes) != 4 {
		t.Errorf("4 keys have %d prefixes", len(prefixes))
	}
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
	if len(asked) != set.count() {
		t.Errorf("%d of %d keys were asked for", len(asked), set.count())
	}
	for key, times := range asked {
		if times != 1 {
			t.Errorf("%s was asked for %d times", key, times)
		}
	}
}
