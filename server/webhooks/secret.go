package webhooks

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// secretOverlap is how long the old secret also signs after a rotation.
	secretOverlap = 24 * time.Hour
	// SecretPrefix marks signing secrets for people and for secret scanners.
	SecretPrefix = "whsec_"
)

// NewSecret returns a new signing secret: whsec_ and 256 random bits. Its whole text is the HMAC key.
func NewSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return SecretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// Keyring encrypts signing secrets at rest (AES-256-GCM). The first key encrypts; each key decrypts what was encrypted under its
// id. To rotate keys, put the new key first, and drop the old one when nothing is stored under it.
type Keyring struct {
	primary string
	keys    map[string]cipher.AEAD
}

// KeyringError reports a malformed keyring; it contains no key.
type KeyringError struct{ Detail string }

func (e *KeyringError) Error() string { return "encryption keys: " + e.Detail }

// UnknownKeyIDError reports a secret that is encrypted under a key that the keyring does not have.
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
			return nil, &KeyringError{fmt.Sprintf("the id %q is given twice", id)}
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

// Encrypt encrypts a secret of one endpoint. In another endpoint's row it does not decrypt.
func (k *Keyring) Encrypt(endpoint uuid.UUID, secret string) (keyID string, ciphertext []byte) {
	aead := k.keys[k.primary]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return k.primary, aead.Seal(nonce, nonce, []byte(secret), endpoint[:])
}

// Decrypt returns a secret that Encrypt has encrypted. It returns *UnknownKeyIDError if the keyring does not have the key.
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

func addSecret(ctx context.Context, q *webhooksdb.Queries, keyring *Keyring, endpoint uuid.UUID, secret string) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	keyID, ciphertext := keyring.Encrypt(endpoint, secret)
	return q.InsertSecret(ctx, webhooksdb.InsertSecretParams{ID: id, EndpointID: endpoint, KeyID: keyID, Ciphertext: ciphertext})
}

// rotateSecret adds a secret and lets the newest one expire after the overlap. Older ones are deleted: there are never more than two
// signatures.
func rotateSecret(ctx context.Context, q *webhooksdb.Queries, keyring *Keyring, endpoint uuid.UUID, secret string) error {
	if err := q.DropEarlierSecrets(ctx, endpoint); err != nil {
		return err
	}
	if err := q.ExpireSecrets(ctx, webhooksdb.ExpireSecretsParams{EndpointID: endpoint, OverlapSeconds: secretOverlap.Seconds()}); err != nil {
		return err
	}
	return addSecret(ctx, q, keyring, endpoint, secret)
}

// ensureSecret makes secret the endpoint's newest one. If the keyring lacks the key of the newest one, then another process has
// re-encrypted it, and it is taken for the same secret: only its ciphertext is replaced.
func ensureSecret(ctx context.Context, q *webhooksdb.Queries, keyring *Keyring, endpoint uuid.UUID, secret string) error {
	rows, err := q.SecretsOfEndpoint(ctx, endpoint)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return addSecret(ctx, q, keyring, endpoint, secret)
	}
	newest, err := keyring.Decrypt(endpoint, rows[0].KeyID, rows[0].Ciphertext)
	if _, unknown := errors.AsType[*UnknownKeyIDError](err); unknown {
		keyID, ciphertext := keyring.Encrypt(endpoint, secret)
		return q.ReplaceCiphertext(ctx, webhooksdb.ReplaceCiphertextParams{KeyID: keyID, Ciphertext: ciphertext, ID: rows[0].ID})
	}
	if err != nil || newest != secret {
		return rotateSecret(ctx, q, keyring, endpoint, secret)
	}
	return nil
}
