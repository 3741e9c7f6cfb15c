package usage

import "context"

// FlushLast is the last flush of Run. It tries again until ctx ends.
func (m *Meter) FlushLast(ctx context.Context) { m.flushLast(ctx) }
