package read

import "context"

const ListenerName = listenerName

// RefreshAll compares all revisions with PostgreSQL, as each poll does.
func (s *Snapshot) RefreshAll(ctx context.Context) error {
	return s.refresh(ctx, refreshRequest{allExams: {}})
}

// Poll refreshes without the listener until ctx ends.
func (s *Snapshot) Poll(ctx context.Context) { s.refreshLoop(ctx) }

// View returns the current view, which a refresh without changes keeps.
func (s *Snapshot) View() any { return s.current.Load() }

// KnownExams returns the number of exams of the current view, also of those that are not served.
func (s *Snapshot) KnownExams() int { return len(s.current.Load().exams) }

func (s *Snapshot) UnreadableExams() int { return unreadableExams(s) }

// PaperCacheBytes returns the size of the cache of papers after maintenance.
func (s *Snapshot) PaperCacheBytes() uint64 {
	s.papers.entries.CleanUp()
	return s.papers.entries.WeightedSize()
}

// CleanUp evicts the entries that are over the bound.
func (k *Keys[K]) CleanUp() { k.entries.CleanUp() }
