package read

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// refreshGap is the pause between two refreshes: a team that applies a thousand exams causes tens of refreshes, not a
	// thousand. It is well below the two seconds within which a revision must be served.
	refreshGap = 50 * time.Millisecond
	// maxRefreshPause is the longest pause after a failed refresh. Each failure in a row doubles it, from refreshGap on.
	maxRefreshPause = 5 * time.Second
	// refreshChunk is how many exams one query loads.
	refreshChunk = 200
)

// refreshLoop refreshes the requested exams, and all exams at each PollInterval, until ctx ends.
func (s *Snapshot) refreshLoop(ctx context.Context) {
	poll := time.NewTicker(s.cfg.PollInterval)
	defer poll.Stop()
	for pause := refreshGap; ; sleep(ctx, pause) {
		isPoll := false
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			isPoll = true
		case <-s.news.wake:
		}
		request := s.news.begin()
		if isPoll {
			request = refreshRequest{allExams: {}}
		}
		if err := s.refresh(ctx, request); err != nil {
			pause = min(2*pause, maxRefreshPause)
		} else {
			pause = refreshGap
		}
		s.news.end()
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// refresh reads the exams that changed and then publishes one new view. If it fails, the old view stays, and a full refresh is
// requested. An exam that cannot be read keeps its last view and does not make the refresh fail.
func (s *Snapshot) refresh(ctx context.Context, request refreshRequest) (err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			s.failures.Inc()
			s.logger.WarnContext(ctx, "catalogue not refreshed; serving the last copy", "error", err)
			s.news.add(allExams)
		}
	}()
	old := s.current.Load().exams
	next := update{s, maps.Collect(maps.All(old))}
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
	if old == nil || !maps.Equal(next.exams, old) {
		s.publish(next.exams)
	}
	if all {
		s.refreshed.SetToCurrentTime()
		recheckDamaged(ctx, s)
	}
	return nil
}

// update makes the exams of the next view from those of the current one.
type update struct {
	*Snapshot

	exams map[string]*examView // not nil
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
	loading, cancel := context.WithTimeout(ctx, u.cfg.LoadTimeout)
	defer cancel()
	rows, err := u.queries.CatalogExams(loading, keys)
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
		return fmt.Errorf("load exams: %w", err)
	}
	for _, row := range rows {
		exam, err := render(row)
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
