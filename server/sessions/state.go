package sessions

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/oauth2"
)

// signInState is a sign-in that has begun: what must come back unchanged from the provider, and which provider it is. The
// browser keeps it in a sealed cookie, so a sign-in that is only begun needs no storage.
type signInState struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Ends     time.Time `json:"ends"`
}

func (s *SignIn) newState() signInState {
	return signInState{
		Issuer: s.provider.Issuer, State: newToken(), Nonce: newToken(), Verifier: oauth2.GenerateVerifier(),
		Ends: s.store.now().Add(SignInTimeout),
	}
}

// newAEAD returns the cipher of the sealed cookies. The nonces of XChaCha20-Poly1305 are long enough to be random under one
// key.
func newAEAD(secret []byte) (cipher.AEAD, error) {
	aead, err := chacha20poly1305.NewX(deriveKey(secret, "examprep sign-in state v1"))
	if err != nil {
		return nil, fmt.Errorf("key of sign-in: %w", err)
	}
	return aead, nil
}

// deriveKey returns the key for one use of the secret.
func deriveKey(secret []byte, label string) []byte {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(label)) // a hash never fails
	return mac.Sum(nil)
}

// encrypt returns nonce and ciphertext as URL-safe text.
func (s *SignIn) encrypt(state signInState) (string, error) {
	value, err := json.Marshal(state)
	if err != nil {
		return "", fmt.Errorf("encode sign-in: %w", err)
	}
	aead, err := newAEAD(s.secret)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, value, nil)), nil
}

// decrypt returns the sign-in that a cookie holds. A wrong state does not consume the sign-in, so a forged callback link
// cannot cancel it.
func (s *SignIn) decrypt(token, state string) (c signInState, err error) {
	if token == "" || state == "" {
		return c, &RefusedError{Reason: "no sign-in was begun in this browser"}
	}
	expired := &RefusedError{Reason: reasonExpired}
	aead, err := newAEAD(s.secret)
	if err != nil {
		return c, err
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(sealed) < aead.NonceSize() {
		return c, expired
	}
	value, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], nil)
	if err != nil {
		return c, expired
	}
	if err := json.Unmarshal(value, &c); err != nil {
		return c, fmt.Errorf("decode sign-in: %w", err)
	}
	if !s.store.now().Before(c.Ends) {
		return c, expired
	}
	if subtle.ConstantTimeCompare([]byte(state), []byte(c.State)) != 1 {
		return c, &RefusedError{Reason: "the state is not the one this browser began with"}
	}
	return c, nil
}

const reasonExpired = "this sign-in is over or was never begun"

// checkUnused refuses a sign-in that was completed already, before the provider is asked. It fails if PostgreSQL cannot be
// written.
func (s *SignIn) checkUnused(ctx context.Context, c signInState) error {
	used, err := s.store.queries.SignInUsed(ctx, hashOf(c.State))
	if err != nil {
		return fmt.Errorf("read sign-in: %w", err)
	}
	if used {
		return &RefusedError{Reason: reasonExpired}
	}
	return nil
}
