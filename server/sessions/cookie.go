package sessions

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"golang.org/x/crypto/chacha20poly1305"
)

// cookieCipher makes values of cookies that only installations with the same secret can make and read. It encrypts them
// with XChaCha20-Poly1305, whose nonces are long enough to be random under one key.
type cookieCipher struct{ aead cipher.AEAD }

// newCookieCipher returns the cipher for one kind of cookie. It cannot decrypt another kind's values.
func newCookieCipher(secret []byte, kind string) cookieCipher {
	key := hmac.New(sha256.New, secret)
	_, _ = key.Write([]byte(kind))                 // a hash never fails
	aead, _ := chacha20poly1305.NewX(key.Sum(nil)) // fails only if the key does not have 32 bytes
	return cookieCipher{aead}
}

// encrypt returns value as URL-safe text. The text begins with 192 random bits, so it is different each time.
func (c cookieCipher) encrypt(value []byte) string {
	nonce := make([]byte, c.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nonce, nonce, value, nil))
}

// decrypt returns the value of encrypt's text. It reports false for any other text.
func (c cookieCipher) decrypt(text string) (value []byte, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	size := c.aead.NonceSize()
	if err != nil || len(sealed) < size {
		return nil, false
	}
	value, err = c.aead.Open(nil, sealed[:size], sealed[size:], nil)
	return value, err == nil
}
