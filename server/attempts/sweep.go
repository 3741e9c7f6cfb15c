package attempts

import (
	"context"
	"fmt"

	"examprep.dev/server/postgres/attemptsdb"
)

// sweepBatch is how many attempts one statement closes: few enough that its locks are short.
const sweepBatch = 1000

// Sweep closes, as expired and not scored, the attempts whose deadline passed 24 hours ago. It is safe to run from
// several workers at once, and to miss: such attempts read as expired and refuse submissions before they are swept. It
// returns how many it closed, also when it fails in between.
func (s *Service) Sweep(ctx context.Context) (closed int, err error) {
	now := s.clock()
	cutoff := now.Add(-lateWindow)
	for {
		n, err := s.queries.CloseOverdue(ctx, attemptsdb.CloseOverdueParams{
			ClosedAt: &now, Cutoff: &cutoff, Batch: sweepBatch,
		})
		if err != nil {
			return closed, fmt.Errorf("close overdue attempts: %w", err)
		}
		closed += int(n)
		if n < sweepBatch {
			return closed, nil
		}
	}
}
