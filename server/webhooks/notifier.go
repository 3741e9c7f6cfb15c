package webhooks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// outboxChannel is the Postgres channel on which relays hear that deliveries were written.
const outboxChannel = "examprep_outbox"

const (
	// notifyGap bounds how often a busy process notifies: a burst of commits costs one NOTIFY per gap.
	notifyGap = 2 * time.Millisecond
	// notifyTimeout bounds one NOTIFY; the relays' sweep makes up for a lost one.
	notifyTimeout = 2 * time.Second
)

// Notifier wakes the relays after a commit that wrote deliveries. It is not part of that transaction on purpose: a
// transaction that has called NOTIFY takes a lock at commit that serialises it with every other such commit of the
// server.
type Notifier struct {
	pool    *pgxpool.Pool
	pending chan struct{}
}

// NewNotifier returns a notifier; call Run for its calls of Notify to have an effect.
func NewNotifier(pool *pgxpool.Pool) *Notifier {
	return &Notifier{pool: pool, pending: make(chan struct{}, 1)}
}

// Notify asks for a notification after everything committed so far. It never blocks; calls that come close together
// become one. A nil Notifier does nothing, for programs that leave the wake-up to the sweep.
func (n *Notifier) Notify() {
	if n == nil {
		return
	}
	select {
	case n.pending <- struct{}{}:
	default: // one that has not been sent yet will cover this commit too
	}
}

// Run sends notifications until ctx ends, then sends the one that may still be pending. It always returns nil: a failed
// notification only means that the sweep finds the deliveries a little later.
func (n *Notifier) Run(ctx context.Context) error {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			select {
			case <-n.pending:
				n.send(context.WithoutCancel(ctx))
			default:
			}
			return nil
		case <-n.pending:
		}
		n.send(context.WithoutCancel(ctx))
		gap.Reset(notifyGap)
		select {
		case <-ctx.Done(): // the next turn of the loop says good-bye
		case <-gap.C:
		}
	}
}

func (n *Notifier) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, _ = n.pool.Exec(ctx, "NOTIFY "+outboxChannel)
}
