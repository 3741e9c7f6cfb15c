package sessions

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"golang.org/x/crypto/chacha20poly1305"
)

// sealer makes values of cookies that only installations with the same secret can make and read. It encrypts them with
// XChaCha20-Poly1305, whose nonces are long enough to be random under one key.
type sealer struct{ aead cipher.AEAD }

// newSealer returns the sealer of one kind of cookie. It cannot open another kind's values.
func newSealer(secret []byte, kind string) sealer {
	key := hmac.New(sha256.New, secret)
	_, _ = key.Write([]byte(kind))                 // a hash never fails
	aead, _ := chacha20poly1305.NewX(key.Sum(nil)) // fails for other lengths than 32 bytes only
	return sealer{aead}
}

// seal returns value as URL-safe text. The text begins with 192 random bits, so it is different each time.
func (s sealer) seal(value []byte) string {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, value, nil))
}

// open returns the value of seal's text. It reports false for any other text.
func (s sealer) open(text string) (value []byte, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	size := s.aead.NonceSize()
	if err != nil || len(sealed) < size {
		return nil, false
	}
	value, err = s.aead.Open(nil, sealed[:size], sealed[size:], nil)
	return value, err == nil
}
