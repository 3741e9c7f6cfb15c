package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

// MaxLive is the maximum of live keys (neither revoked nor expired) of an account whose owner creates them
// ([NewKey.MaxLiveKeys]). An administrator may create more. As many rotated keys may live on beside their successors.
const MaxLive = 1000

// checkLiveKeyLimit returns a *LimitError if the account has most live keys; 0 is no limit. The caller has locked the
// account's row, so no other key is added meanwhile.
func checkLiveKeyLimit(ctx context.Context, q *keysdb.Queries, account uuid.UUID, most int) error {
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

// checkRotatedKeyLimit returns a *LimitError if MaxLive keys of the account live on beside their successors, and another
// one must. It locks the account's row until the transaction ends.
func checkRotatedKeyLimit(ctx context.Context, q *keysdb.Queries, account uuid.UUID, overlap time.Duration) error {
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
