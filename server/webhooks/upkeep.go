package webhooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
)

// DropExpiredSecrets deletes the secrets whose overlap is over. A secret that cannot be deleted costs no other, and one that another
// transaction locks is left for the next call. The first error of those that PostgreSQL refused is returned at the end.
func DropExpiredSecrets(ctx context.Context, queries *webhooksdb.Queries) error {
	var refused error
	err := eachPage(func(after uuid.UUID) ([]uuid.UUID, error) { return queries.ExpiredSecrets(ctx, after) }, func(ids []uuid.UUID) error {
		return postgres.Divide(ids, func(ids []uuid.UUID) error { return queries.DropSecrets(ctx, ids) }, func(id uuid.UUID, err error) {
			if refused == nil {
				refused = fmt.Errorf("delete expired secret %s: %w", id, err)
			}
		})
	})
	if err != nil {
		return fmt.Errorf("delete expired secrets: %w", err)
	}
	return refused
}

// Reencrypt encrypts with the first key all secrets that are stored under another one of the keyring. A secret that cannot be read,
// decrypted or replaced, or that another transaction locks, stays as it is and costs no other. The first error of those that
// PostgreSQL refused is returned at the end.
func (k *Keyring) Reencrypt(ctx context.Context, queries *webhooksdb.Queries) error {
	others := slices.DeleteFunc(slices.Collect(maps.Keys(k.keys)), func(id string) bool { return id == k.primary })
	var refused error
	err := eachPage(func(after uuid.UUID) ([]uuid.UUID, error) {
		return queries.SecretsUnderKeys(ctx, webhooksdb.SecretsUnderKeysParams{KeyIds: others, After: after})
	}, func(ids []uuid.UUID) error {
		for _, id := range ids {
			switch err := k.reencrypt(ctx, queries, id); {
			case postgres.Unavailable(err) && !postgres.Divides(err):
				return err
			case refused == nil:
				refused = err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("encrypt secrets with the first key: %w", err)
	}
	return refused
}

// eachPage calls do with each page of ids, in their order, until a page is empty or a call fails.
func eachPage(page func(after uuid.UUID) ([]uuid.UUID, error), do func([]uuid.UUID) error) error {
	for after := uuid.Nil; ; {
		ids, err := page(after)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := do(ids); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}

func (k *Keyring) reencrypt(ctx context.Context, queries *webhooksdb.Queries, id uuid.UUID) error {
	row, err := queries.Secret(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) { // deleted meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("read secret %s: %w", id, err)
	}
	secret, err := k.Decrypt(row.EndpointID, row.KeyID, row.Ciphertext)
	if err != nil { // the worker logs it when the endpoint has a delivery
		return nil //nolint:nilerr // it stays as it is
	}
	keyID, ciphertext := k.Encrypt(row.EndpointID, secret)
	replaced := webhooksdb.ReplaceCiphertextOfUnlockedParams{ID: id, KeyID: keyID, Ciphertext: ciphertext}
	if err := queries.ReplaceCiphertextOfUnlocked(ctx, replaced); err != nil {
		return fmt.Errorf("re-encrypt secret %s: %w", id, err)
	}
	return nil
}
