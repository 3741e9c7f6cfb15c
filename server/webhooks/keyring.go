package webhooks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Keyring encrypts signing secrets at rest (AES-256-GCM). The first key encrypts; any of them decrypts what was stored
// under its id, so a key is rotated by putting the new one in front, and dropped when nothing is stored under it.
type Keyring struct {
	primary string
	keys    map[string]cipher.AEAD
}

// KeyringError says what is wrong with the text of a keyring; it holds no key.
type KeyringError struct{ Detail string }

func (e *KeyringError) Error() string { return "encryption keys: " + e.Detail }

// UnknownKeyIDError says that a secret is stored under a key that the keyring does not hold.
type UnknownKeyIDError struct{ KeyID string }

func (e *UnknownKeyIDError) Error() string {
	return fmt.Sprintf("a webhook secret is encrypted under key %q, which is not among the encryption keys", e.KeyID)
}

// ParseKeyring reads `id:base64[,id:base64…]`; each key has 32 bytes, ids are unique and not empty.
func ParseKeyring(text string) (*Keyring, error) {
	ring := &Keyring{keys: make(map[string]cipher.AEAD)}
	for element := range strings.SplitSeq(text, ",") {
		id, encoded, found := strings.Cut(strings.TrimSpace(element), ":")
		if !found || id == "" {
			return nil, &KeyringError{"not of the form id:base64[,id:base64…]"}
		}
		if _, twice := ring.keys[id]; twice {
			return nil, &KeyringError{fmt.Sprintf("the id %q stands twice", id)}
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != 32 {
			return nil, &KeyringError{fmt.Sprintf("the key %q is not base64 of 32 bytes", id)}
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, &KeyringError{fmt.Sprintf("the key %q cannot be used", id)}
		}
		if ring.keys[id], err = cipher.NewGCM(block); err != nil {
			return nil, &KeyringError{fmt.Sprintf("the key %q cannot be used", id)}
		}
		if ring.primary == "" {
			ring.primary = id
		}
	}
	return ring, nil
}

// seal encrypts a secret for one endpoint: moved to another endpoint's row it does not open.
func (k *Keyring) seal(endpoint uuid.UUID, secret string) (keyID string, ciphertext []byte) {
	aead := k.keys[k.primary]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return k.primary, aead.Seal(nonce, nonce, []byte(secret), endpoint[:])
}

func (k *Keyring) open(endpoint uuid.UUID, keyID string, ciphertext []byte) (string, error) {
	aead, known := k.keys[keyID]
	if !known {
		return "", &UnknownKeyIDError{KeyID: keyID}
	}
	if len(ciphertext) < aead.NonceSize() {
		return "", fmt.Errorf("webhook secret of endpoint %s: ciphertext is cut short", endpoint)
	}
	nonce, sealed := ciphertext[:aead.NonceSize()], ciphertext[aead.NonceSize():]
	secret, err := aead.Open(nil, nonce, sealed, endpoint[:])
	if err != nil {
		return "", fmt.Errorf("webhook secret of endpoint %s does not decrypt under key %q: %w", endpoint, keyID, err)
	}
	return string(secret), nil
}
