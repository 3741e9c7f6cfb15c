package read

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"examprep.dev/server/postgres/catalogdb"
)

const (
	// refreshGap is the pause between two refreshes: a team that applies a thousand exams causes tens of refreshes, not a
	// thousand. It is well below the two seconds within which a revision must be served.
	refreshGap = 50 * time.Millisecond
	// refreshChunk is how many exams one query loads.
	refreshChunk = 200
	// minRetryPause and maxRetryPause are the limits of the pause after a failure; it doubles.
	minRetryPause = 250 * time.Millisecond
	maxRetryPause = 5 * time.Second
)

// refreshRequest has the keys of the exams that can have changed; allExams stands for all of them.
type refreshRequest map[string]struct{}

const allExams = ""

// refreshQueue merges the requests that arrive during a refresh into the next one.
type refreshQueue struct {
	mu   sync.Mutex
	next refreshRequest
	// wake holds a token while next is not empty.
	wake chan struct{}
}

func newRefreshQueue() *refreshQueue {
	return &refreshQueue{next: refreshRequest{}, wake: make(chan struct{}, 1)}
}

func (q *refreshQueue) add(examKey string) {
	q.mu.Lock()
	q.next[examKey] = struct{}{}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drain returns the merged request and empties the queue.
func (q *refreshQueue) drain() refreshRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	merged := q.next
	q.next = refreshRequest{}
	return merged
}

// refreshLoop refreshes the exams in the queue, and all exams at each PollInterval, until ctx ends.
func (s *Snapshot) refreshLoop(ctx context.Context) {
	poll := time.NewTicker(s.cfg.PollInterval)
	defer poll.Stop()
	for retry := minRetryPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			s.queue.add(allExams)
			continue
		case <-s.queue.wake:
		}
		pause := refreshGap
		if err := s.refresh(ctx, s.queue.drain()); err == nil {
			retry = minRetryPause
		} else if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "catalogue not refreshed; serving the last copy", "error", err)
			s.queue.add(allExams)
			pause, retry = retry, min(2*retry, maxRetryPause)
		}
		sleep(ctx, pause)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// refresh reads the exams that changed and then publishes one new view. If it fails, the old view stays. An exam that cannot
// be read keeps its last view and does not make the refresh fail.
func (s *Snapshot) refresh(ctx context.Context, request refreshRequest) (err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			s.failures.Inc()
		}
	}()
	old := s.current.Load()
	next := update{Snapshot: s, exams: map[string]*examView{}}
	if old != nil {
		maps.Copy(next.exams, old.exams)
	}
	keys := slices.Sorted(maps.Keys(request))
	all := old == nil || slices.Contains(keys, allExams)
	if all {
		if keys, err = next.changed(ctx); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(keys, refreshChunk) {
		if err := next.load(ctx, chunk); err != nil {
			return err
		}
	}
	if old == nil || !maps.Equal(next.exams, old.exams) {
		s.publish(next.exams)
	}
	if all {
		s.refreshed.SetToCurrentTime()
		s.damaged.recheck(ctx, func(id revisionID) bool { return id == s.revision(id.examKey, id.digest) })
	}
	return nil
}

// update makes the exams of the next view from those of the current one.
type update struct {
	*Snapshot

	exams map[string]*examView
}

// changed returns the keys of the exams whose state changed or that could not be read, and removes deleted exams.
func (u update) changed(ctx context.Context) (keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.LoadTimeout)
	defer cancel()
	states, err := u.queries.CatalogStates(ctx)
	if err != nil {
		return nil, fmt.Errorf("poll revisions: %w", err)
	}
	exist := make(map[string]bool, len(states))
	for _, state := range states {
		exist[state.ExamKey] = true
		if known := u.exams[state.ExamKey]; known == nil || known.unreadable != "" || known.state != state {
			keys = append(keys, state.ExamKey)
		}
	}
	maps.DeleteFunc(u.exams, func(key string, _ *examView) bool { return !exist[key] })
	return keys, nil
}

// load reads and renders some exams. If PostgreSQL cannot read one of their rows, load divides the exams until only the
// damaged ones are left, so that all others are loaded.
func (u update) load(ctx context.Context, keys []string) error {
	rows, papers, err := u.read(ctx, keys)
	switch {
	case isDamaged(err) && len(keys) > 1:
		middle := len(keys) / 2
		if err := u.load(ctx, keys[:middle]); err != nil {
			return err
		}
		return u.load(ctx, keys[middle:])
	case isDamaged(err):
		u.keepLast(ctx, keys[0], err)
		return nil
	case err != nil:
		return err
	}
	for _, row := range rows {
		exam, err := render(row, papers[row.ExamKey])
		if err != nil {
			u.keepLast(ctx, row.ExamKey, err)
			continue
		}
		if known := u.exams[row.ExamKey]; known != nil && known.unreadable != "" && exam.papers != nil {
			u.logger.InfoContext(ctx, "catalogue: exam can be read again", "exam_key", row.ExamKey)
		}
		u.exams[row.ExamKey] = exam
	}
	return nil
}

// read reads the rows of some exams, and those of their papers by exam key. The exams' rows name the revisions whose papers
// are read; revisions are immutable, so that two queries see one state.
func (u update) read(ctx context.Context, keys []string) (
	rows []catalogdb.CatalogExamsRow, papers map[string][]catalogdb.CatalogPapersRow, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.LoadTimeout)
	defer cancel()
	if rows, err = u.queries.CatalogExams(ctx, keys); err != nil {
		return nil, nil, fmt.Errorf("load exams: %w", err)
	}
	var served catalogdb.CatalogPapersParams
	for _, row := range rows {
		if !row.Withdrawn {
			served.ExamKeys, served.Revisions = append(served.ExamKeys, row.ExamKey), append(served.Revisions, row.Revision)
		}
	}
	list, err := u.queries.CatalogPapers(ctx, served)
	if err != nil {
		return nil, nil, fmt.Errorf("load paper lists: %w", err)
	}
	papers = make(map[string][]catalogdb.CatalogPapersRow, len(rows))
	for _, paper := range list {
		papers[paper.ExamKey] = append(papers[paper.ExamKey], paper)
	}
	return rows, papers, nil
}

// keepLast marks an exam as unreadable and keeps its last view, if there is one. It logs each new cause once; each poll
// reads the exam again.
func (u update) keepLast(ctx context.Context, examKey string, cause error) {
	kept := examView{}
	if known := u.exams[examKey]; known != nil && known.unreadable == cause.Error() {
		return
	} else if known != nil && !known.state.Withdrawn {
		kept = *known
	}
	kept.unreadable = cause.Error()
	u.exams[examKey] = &kept
	u.logger.ErrorContext(ctx, "catalogue: exam cannot be read; its last readable revision stays",
		"exam_key", examKey, "served_revision", kept.state.Revision, "error", cause)
}
