package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"examprep.dev/server/postgres/catalogdb"
)

const (
	// refreshGap lies between two refreshes: a platform team that applies a thousand exams makes tens of refreshes, not
	// a thousand. It is well below the two seconds within which a revision must be served.
	refreshGap = 50 * time.Millisecond
	// refreshChunk is how many exams one query loads.
	refreshChunk = 200
	// retryFirst and retryMost bound the wait after a failure; it doubles.
	retryFirst = 250 * time.Millisecond
	retryMost  = 5 * time.Second
)

// request says what may have changed: these exams, or any.
type request struct {
	keys map[string]struct{}
	all  bool
}

// staleSet gathers requests while a refresh is under way.
type staleSet struct {
	mu   sync.Mutex
	next request
	// wake holds a token while next is not empty.
	wake chan struct{}
}

func newStaleSet() *staleSet {
	return &staleSet{next: request{keys: map[string]struct{}{}}, wake: make(chan struct{}, 1)}
}

func (s *staleSet) add(examKey string) { s.change(func(r *request) { r.keys[examKey] = struct{}{} }) }

func (s *staleSet) addAll() { s.change(func(r *request) { r.all = true }) }

func (s *staleSet) change(change func(*request)) {
	s.mu.Lock()
	change(&s.next)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *staleSet) take() request {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.next
	s.next = request{keys: map[string]struct{}{}}
	return taken
}

// follow refreshes what was heard of, and looks at all revisions now and then, until ctx ends.
func (s *Snapshot) follow(ctx context.Context) {
	poll := time.NewTicker(s.cfg.PollInterval)
	defer poll.Stop()
	wait := retryFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			s.stale.addAll()
			continue
		case <-s.stale.wake:
		}
		pause := refreshGap
		if err := s.refresh(ctx, s.stale.take()); err == nil {
			wait = retryFirst
		} else if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "catalogue not refreshed; what is known goes on being served", "error", err)
			s.stale.addAll()
			pause, wait = wait, min(2*wait, retryMost)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep waits for d, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// refresh loads what changed and then swaps the view once. On failure the old view stays whole. An exam that cannot be read
// keeps its last view and does not make the refresh fail.
func (s *Snapshot) refresh(ctx context.Context, asked request) error {
	err := s.bringUpToDate(ctx, &asked)
	if err == nil || ctx.Err() == nil {
		s.metrics.compared(asked.all, time.Now(), err)
	}
	if err == nil && asked.all {
		isCurrent := func(id revisionID) bool { return id == s.revision(id.examKey, id.digest) }
		s.papers.recheck(ctx, isCurrent)
		s.keys.recheck(ctx, isCurrent)
		s.opened.recheck(ctx, isCurrent)
	}
	return err
}

func (s *Snapshot) bringUpToDate(ctx context.Context, asked *request) error {
	old := s.current.Load()
	if old == nil {
		old, asked.all = &view{}, true
	}
	exams := maps.Clone(old.exams)
	if exams == nil {
		exams = map[string]*examView{}
	}
	keys := slices.Sorted(maps.Keys(asked.keys))
	if asked.all {
		var err error
		if keys, err = s.changed(ctx, exams); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(keys, refreshChunk) {
		if err := s.load(ctx, exams, chunk); err != nil {
			return err
		}
	}
	if s.current.Load() == nil || !maps.Equal(exams, old.exams) {
		s.publish(newView(exams))
	}
	return nil
}

// changed lists the exams whose state is not what is known or that could not be read, and removes those that were deleted.
func (s *Snapshot) changed(ctx context.Context, exams map[string]*examView) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LoadTimeout)
	defer cancel()
	states, err := catalogdb.New(s.pool).CatalogStates(ctx)
	if err != nil {
		return nil, fmt.Errorf("poll revisions: %w", err)
	}
	var keys []string
	exist := make(map[string]bool, len(states))
	for _, state := range states {
		exist[state.ExamKey] = true
		known := exams[state.ExamKey]
		if known == nil || known.unreadable != "" || known.state != (examState{state.Revision, state.Withdrawn, state.Repairs}) {
			keys = append(keys, state.ExamKey)
		}
	}
	maps.DeleteFunc(exams, func(key string, _ *examView) bool { return !exist[key] })
	return keys, nil
}

// load reads and renders some exams into exams. If PostgreSQL cannot read one of their rows, load divides the exams until
// only the damaged ones are left, so that all others are loaded.
func (s *Snapshot) load(ctx context.Context, exams map[string]*examView, keys []string) error {
	rows, papers, err := s.read(ctx, keys)
	switch {
	case err == nil:
	case !isDamaged(err):
		return err
	case len(keys) == 1:
		s.keepLast(ctx, exams, keys[0], err)
		return nil
	default:
		middle := len(keys) / 2
		if err := s.load(ctx, exams, keys[:middle]); err != nil {
			return err
		}
		return s.load(ctx, exams, keys[middle:])
	}
	for _, row := range rows {
		if row.Withdrawn {
			exams[row.ExamKey] = &examView{state: examState{row.Revision, true, row.Repairs}}
			continue
		}
		exam, err := render(row, papers[row.ExamKey])
		if err != nil {
			s.keepLast(ctx, exams, row.ExamKey, err)
			continue
		}
		if known := exams[row.ExamKey]; known != nil && known.unreadable != "" {
			s.logger.InfoContext(ctx, "catalogue: exam can be read again", "exam_key", row.ExamKey)
		}
		exams[row.ExamKey] = exam
	}
	return nil
}

// read reads the rows of some exams, and those of their papers by exam key. The exams' rows say which revision to read the
// papers of; revisions are immutable, so that two queries see one state.
func (s *Snapshot) read(
	ctx context.Context, keys []string,
) ([]catalogdb.CatalogExamsRow, map[string][]catalogdb.CatalogPapersRow, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LoadTimeout)
	defer cancel()
	q := catalogdb.New(s.pool)
	rows, err := q.CatalogExams(ctx, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("load exams: %w", err)
	}
	var wanted catalogdb.CatalogPapersParams
	for _, row := range rows {
		if !row.Withdrawn {
			wanted.ExamKeys = append(wanted.ExamKeys, row.ExamKey)
			wanted.Revisions = append(wanted.Revisions, row.Revision)
		}
	}
	papers, err := q.CatalogPapers(ctx, wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("load paper lists: %w", err)
	}
	byExam := make(map[string][]catalogdb.CatalogPapersRow, len(rows))
	for _, paper := range papers {
		byExam[paper.ExamKey] = append(byExam[paper.ExamKey], paper)
	}
	return rows, byExam, nil
}

// keepLast marks an exam as unreadable and keeps its last view, if there is one. It logs each new cause once; each poll
// reads the exam again.
func (s *Snapshot) keepLast(ctx context.Context, exams map[string]*examView, examKey string, cause error) {
	known := exams[examKey]
	if known != nil && known.unreadable == cause.Error() {
		return
	}
	kept := examView{}
	if known != nil && !known.state.withdrawn {
		kept = *known
	}
	kept.unreadable = cause.Error()
	exams[examKey] = &kept
	s.logger.ErrorContext(ctx, "catalogue: exam cannot be read; its last readable revision stays",
		"exam_key", examKey, "served_revision", kept.state.revision, "error", cause)
}

func newView(exams map[string]*examView) *view {
	v := &view{exams: exams, list: make([]ExamEntry, 0, len(exams))}
	for _, exam := range exams {
		if exam.papers != nil {
			v.list = append(v.list, exam.entry)
		}
	}
	slices.SortFunc(v.list, func(a, b ExamEntry) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	return v
}
