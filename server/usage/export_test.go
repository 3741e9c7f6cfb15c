package usage

import "context"

// FlushLast is the last flush of Run. It tries again until ctx ends.
func (m *Meter) FlushLast(ctx context.Context) { m.flushLast(ctx) }

// Unwritten is how many batches are kept that are not known to be written.
func (m *Meter) Unwritten() int { return len(m.batches) }
