package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// The parts of a key's text.
const (
	// Scheme is what every key begins with.
	Scheme = "service_"
	// PrefixLength is the length of a key prefix: the scheme and the first 8 hexadecimal digits.
	PrefixLength = len(Scheme) + 8
	// Length is the length of a key: the scheme and 48 hexadecimal digits, the last 8 of them the check.
	Length = len(Scheme) + randomDigits + checkDigits

	randomDigits = 40
	checkDigits  = 8
)

// Hash is the SHA-256 of a key's text: what is stored, and what gates look up.
type Hash [sha256.Size]byte

// Parse says whether presented has the form of a key (lower-case digits, a check that fits) and returns its hash. It
// looks nothing up and allocates nothing.
func Parse(presented []byte) (Hash, bool) {
	if len(presented) != Length || !bytes.HasPrefix(presented, []byte(Scheme)) {
		return Hash{}, false
	}
	// hex decodes without a branch for each digit, which of a random key no processor foresees. It takes upper-case digits
	// too; of all digits they alone lack this bit.
	const notUpperCase = 0x20
	var decoded [(randomDigits + checkDigits) / 2]byte
	all := byte(notUpperCase)
	for _, c := range presented[len(Scheme):] {
		all &= c
	}
	if _, err := hex.Decode(decoded[:], presented[len(Scheme):]); err != nil || all == 0 {
		return Hash{}, false
	}
	if check := binary.BigEndian.Uint32(decoded[randomDigits/2:]); check != crc32.ChecksumIEEE(presented[:Length-checkDigits]) {
		return Hash{}, false
	}
	return sha256.Sum256(presented), true
}

// IsPrefix says whether text has the form of a key prefix. No other text names a key.
func IsPrefix(text string) bool {
	if len(text) != PrefixLength || text[:len(Scheme)] != Scheme {
		return false
	}
	for _, c := range []byte(text[len(Scheme):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// generate returns the text of a new key.
func generate() string {
	var random [randomDigits / 2]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the program instead
	body := Scheme + hex.EncodeToString(random[:])
	return fmt.Sprintf("%s%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

// prefixOf returns the prefix of a key's text.
func prefixOf(key string) string { return key[:PrefixLength] }
