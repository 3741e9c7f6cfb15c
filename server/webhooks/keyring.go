package webhooks

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
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

// Encrypt encrypts a secret for one endpoint: moved to another endpoint's row it does not open.
func (k *Keyring) Encrypt(endpoint uuid.UUID, secret string) (keyID string, ciphertext []byte) {
	aead := k.keys[k.primary]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return k.primary, aead.Seal(nonce, nonce, []byte(secret), endpoint[:])
}

// Decrypt returns a secret that Encrypt encrypted for the same endpoint.
func (k *Keyring) Decrypt(endpoint uuid.UUID, keyID string, ciphertext []byte) (string, error) {
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

// Reencrypt encrypts with the first key all secrets that are stored under another one. A secret whose key the keyring does
// not hold stays as it is.
func (k *Keyring) Reencrypt(ctx context.Context, queries *webhooksdb.Queries) error {
	for after := uuid.Nil; ; {
		rows, err := queries.SecretsUnderOtherKeys(ctx, webhooksdb.SecretsUnderOtherKeysParams{KeyID: k.primary, After: after})
		if err != nil {
			return fmt.Errorf("find secrets under other keys: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, row := range rows {
			after = row.ID
			secret, err := k.Decrypt(row.EndpointID, row.KeyID, row.Ciphertext)
			if err != nil {
				continue
			}
			keyID, ciphertext := k.Encrypt(row.EndpointID, secret)
			if err := queries.ReplaceCiphertext(ctx, webhooksdb.ReplaceCiphertextParams{
				ID: row.ID, KeyID: keyID, Ciphertext: ciphertext,
			}); err != nil {
				return fmt.Errorf("re-encrypt secret: %w", err)
			}
		}
	}
}
