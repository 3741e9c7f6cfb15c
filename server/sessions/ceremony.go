package sessions

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/oauth2"
)

// ceremony is what must come back unchanged from the provider, and which provider it was: another's answer is none. The
// browser keeps it, sealed, in a cookie: whoever only begins takes up no room of ours.
type ceremony struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Ends     time.Time `json:"ends"`
}

func (s *SignIn) newCeremony() ceremony {
	return ceremony{
		Issuer: s.provider.Issuer, State: newToken(), Nonce: newToken(), Verifier: oauth2.GenerateVerifier(),
		Ends: s.store.now().Add(SignInTimeout),
	}
}

const (
	// sealLabel keeps the seal's keys apart from whatever else is derived from the same secret.
	sealLabel = "examprep sign-in ceremony v1"
	saltSize  = 32
)

// seal returns salt and ciphertext (AES-256-GCM) as URL-safe text. Each has a key of its own, so that no number of
// ceremonies wears a key out.
func (s *SignIn) seal(c ceremony) (string, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode sign-in: %w", err)
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	aead, err := s.sealOf(salt)
	if err != nil {
		return "", err
	}
	sealed := aead.Seal(salt, nil, value, nil) //nolint:gosec // no nonce: this AEAD makes its own
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

func (s *SignIn) sealOf(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.secret, salt, sealLabel, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive key of sign-in: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal sign-in: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("seal sign-in: %w", err)
	}
	return aead, nil
}

// open returns the ceremony that a cookie holds. One whose state is not the one that came back stays unused: a link to
// the callback that somebody made up must not end a sign-in that is under way.
func (s *SignIn) open(token, state string) (c ceremony, err error) {
	if token == "" || state == "" {
		return c, &RefusedError{Reason: "no sign-in was begun in this browser"}
	}
	over := &RefusedError{Reason: reasonOver}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(sealed) < saltSize {
		return c, over
	}
	aead, err := s.sealOf(sealed[:saltSize])
	if err != nil {
		return c, err
	}
	value, err := aead.Open(nil, nil, sealed[saltSize:], nil)
	if err != nil {
		return c, over
	}
	if err := json.Unmarshal(value, &c); err != nil {
		return c, fmt.Errorf("decode sign-in: %w", err)
	}
	if !s.store.now().Before(c.Ends) {
		return c, over
	}
	if subtle.ConstantTimeCompare([]byte(state), []byte(c.State)) != 1 {
		return c, &RefusedError{Reason: "the state is not the one this browser began with"}
	}
	return c, nil
}

const reasonOver = "this sign-in is over or was never begun"

// use marks the ceremony used; of two callbacks at once one can. The mark outlasts the ceremony by far, since each pod
// has a clock of its own.
func (s *SignIn) use(ctx context.Context, c ceremony) error {
	first, err := s.store.redis.SetNX(ctx, s.store.prefix+"sign-in:"+hashed(c.State), "", 2*SignInTimeout).Result()
	if err != nil {
		return &UnavailableError{"use sign-in", err}
	}
	if !first {
		return &RefusedError{Reason: reasonOver}
	}
	return nil
}
