package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

// MaxLive is how many live keys (neither revoked nor expired) an account may have where its owner creates them
// ([NewKey.Most]); an administrator may create more. As many may live on beside their successors: a rotation with an
// overlap replaces a key, so it is possible at the limit, but not without end.
const MaxLive = 1000

// roomForOneMore returns a *LimitError where the account has most live keys. The caller has the account's row locked, so
// no other key is added meanwhile.
func roomForOneMore(ctx context.Context, q *keysdb.Queries, account uuid.UUID, most int) error {
	if most == 0 {
		return nil
	}
	count, err := q.CountLiveKeys(ctx, account)
	if err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if count.Live >= int64(most) {
		return &LimitError{Most: most}
	}
	return nil
}

// roomForRotated returns a *LimitError where MaxLive keys of the account live on beside their successors and another is to
// do so for overlap. It locks the account's row until the transaction ends.
func roomForRotated(ctx context.Context, q *keysdb.Queries, account uuid.UUID, overlap time.Duration) error {
	if overlap == 0 {
		return nil
	}
	if err := q.LockAccount(ctx, account); err != nil {
		return fmt.Errorf("lock account: %w", err)
	}
	count, err := q.CountLiveKeys(ctx, account)
	if err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if count.Rotated >= MaxLive {
		return &LimitError{Most: MaxLive, Rotated: true}
	}
	return nil
}
