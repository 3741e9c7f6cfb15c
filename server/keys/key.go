package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/google/uuid"
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

// Identity is the part of a key that never changes.
type Identity struct {
	KeyID     uuid.UUID
	FamilyID  uuid.UUID // id of the first key of a rotation chain; attempts belong to it, so a rotated key inherits them
	AccountID uuid.UUID // the account that the key belongs to
}

// Parse reports whether presented has the form of a key (lower-case digits, a check that fits) and returns its hash. It
// looks nothing up and allocates nothing.
func Parse(presented []byte) (Hash, bool) {
	if len(presented) != Length || !bytes.HasPrefix(presented, []byte(Scheme)) {
		return Hash{}, false
	}
	// hex.Decode is much faster than a test of each digit. It accepts upper-case digits, which alone lack this bit.
	const notUpperCase = 0x20
	all := byte(notUpperCase)
	for _, c := range presented[len(Scheme):] {
		all &= c
	}
	var decoded [(randomDigits + checkDigits) / 2]byte
	if _, err := hex.Decode(decoded[:], presented[len(Scheme):]); err != nil || all == 0 {
		return Hash{}, false
	}
	if check := binary.BigEndian.Uint32(decoded[randomDigits/2:]); check != crc32.ChecksumIEEE(presented[:Length-checkDigits]) {
		return Hash{}, false
	}
	return sha256.Sum256(presented), true
}

// PrefixNumber returns the 8 hexadecimal digits of a key's prefix as a number. ok is false for any other text.
func PrefixNumber(prefix []byte) (number uint32, ok bool) {
	var digits [4]byte
	if len(prefix) != PrefixLength || string(prefix[:len(Scheme)]) != Scheme {
		return 0, false
	}
	if _, err := hex.Decode(digits[:], prefix[len(Scheme):]); err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint32(digits[:]), true
}

// IsPrefix reports whether text has the form of a key prefix, in lower case. No other text names a key.
func IsPrefix(text string) bool {
	_, ok := PrefixNumber([]byte(text))
	return ok && strings.ToLower(text) == text
}

// generate returns the text of a new key.
func generate() string {
	var random [randomDigits / 2]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the program instead
	body := Scheme + hex.EncodeToString(random[:])
	return fmt.Sprintf("%s%08x", body, crc32.ChecksumIEEE([]byte(body)))
}
