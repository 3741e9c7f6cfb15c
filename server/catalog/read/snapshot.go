package read

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// SnapshotConfig has the bounds of a Snapshot; zero values take the defaults.
type SnapshotConfig struct {
	PaperCacheBytes uint64                // approximate size of the cache of papers; 256 MiB by default
	KeyCacheBytes   uint64                // approximate size of the cache of answer keys; 64 MiB by default
	PollInterval    time.Duration         // between two comparisons of all revisions with PostgreSQL; 10 s by default
	LoadTimeout     time.Duration         // of each read from PostgreSQL; 5 s by default
	Registerer      prometheus.Registerer // of the metrics; nil: none. One process has one Snapshot
}

// Document is a finished response body with its strong ETag, quotes included. Its bytes must not be changed.
type Document struct {
	JSON []byte
	ETag string
}

// ExamEntry is one exam of the list: the fields that order it, and its finished ExamSummary.
type ExamEntry struct {
	Key, Name, Country, CountryCode string
	JSON                            []byte
}

// Snapshot is an API pod's copy of the catalogue. All methods are safe for concurrent use; those without a context never
// wait.
type Snapshot struct {
	pool    *pgxpool.Pool
	queries *catalogdb.Queries
	logger  *slog.Logger
	cfg     SnapshotConfig

	current atomic.Pointer[view] // never nil
	papers  *cache[*PaperRevision]
	opened  *cache[struct{}]
	// damaged has the documents that could not be read when they were loaded last, with functions that load them again.
	damaged *otter.Cache[documentID, func(context.Context) error]

	news news

	refreshed prometheus.Gauge
	failures  prometheus.Counter

	watching sync.Mutex
	watchers []func([]ExamEntry)
}

// view is the whole catalogue at one moment. It never changes.
type view struct {
	exams map[string]*examView // nil until the catalogue was loaded once
	list  []ExamEntry
}

// examView is one exam's published revision, rendered. If that cannot be read, it is the last one that could. Only state and
// unreadable are set if the exam is not served: it is withdrawn, or this pod was never able to read it.
type examView struct {
	state      catalogdb.CatalogStatesRow
	unreadable string // why the published revision cannot be read; empty if it can

	entry                                ExamEntry
	overview, resources, studyPath, list Document
	papers                               map[string]paperView // nil if the exam is not served
}

type paperView struct {
	digest         catalog.Digest
	otherRevisions bool
}

// OpenSnapshot returns a Snapshot after one attempt to load the catalogue. It succeeds without a database: the Snapshot is
// not Ready then, and Run loads it later. It fails if cfg has negative durations.
func OpenSnapshot(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, cfg SnapshotConfig) (*Snapshot, error) {
	if cfg.PollInterval < 0 || cfg.LoadTimeout < 0 {
		return nil, errors.New("catalog: negative durations in SnapshotConfig")
	}
	cfg.PaperCacheBytes, cfg.KeyCacheBytes = cmp.Or(cfg.PaperCacheBytes, 256<<20), cmp.Or(cfg.KeyCacheBytes, 64<<20)
	cfg.PollInterval, cfg.LoadTimeout = cmp.Or(cfg.PollInterval, 10*time.Second), cmp.Or(cfg.LoadTimeout, 5*time.Second)
	s := &Snapshot{
		pool: pool, queries: catalogdb.New(pool), logger: logger, cfg: cfg, news: news{wake: make(chan struct{}, 1)},
		damaged: otter.Must(&otter.Options[documentID, func(context.Context) error]{}),
	}
	s.current.Store(&view{})
	s.papers = newCache(s, "paper", cfg.PaperCacheBytes, loadPaper)
	s.opened = newCache(s, "mark of an opened paper", openedCacheBytes, storeOpened)
	registerMetrics(s)
	registerCacheMetrics(cfg.Registerer, "papers", s.papers.entries)
	_ = s.refresh(ctx, refreshRequest{allExams: {}}) // it logs its failure, and requests a refresh by Run
	return s, nil
}

// Run keeps the Snapshot current until ctx ends, and returns nil then.
func (s *Snapshot) Run(ctx context.Context) error {
	var loops errgroup.Group
	loops.Go(func() error { s.listen(ctx); return nil })
	loops.Go(func() error { s.refreshLoop(ctx); return nil })
	return loops.Wait()
}

// Ready reports whether the catalogue was loaded once. It stays true while PostgreSQL is unavailable.
func (s *Snapshot) Ready() bool { return s.current.Load().exams != nil }

// List returns every served exam, by name. The slice must not be changed.
func (s *Snapshot) List() []ExamEntry { return s.current.Load().list }

// OnChange calls changed with the list now, and again before each change of the catalogue becomes visible. Calls never
// overlap. changed must not modify the slice.
func (s *Snapshot) OnChange(changed func([]ExamEntry)) {
	s.watching.Lock()
	defer s.watching.Unlock()
	s.watchers = append(s.watchers, changed)
	changed(s.List())
}

// publish makes exams the catalogue.
func (s *Snapshot) publish(exams map[string]*examView) {
	v := &view{exams: exams, list: make([]ExamEntry, 0, len(exams))}
	for _, exam := range exams {
		if exam.papers != nil {
			v.list = append(v.list, exam.entry)
		}
	}
	slices.SortFunc(v.list, func(a, b ExamEntry) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	s.watching.Lock()
	defer s.watching.Unlock()
	for _, changed := range s.watchers {
		changed(v.list)
	}
	s.current.Store(v)
}

// Overview returns the exam's ExamOverview. It fails with *catalog.NotFoundError or *catalog.UnavailableError.
func (s *Snapshot) Overview(examKey string) (Document, error) {
	exam, err := s.exam(examKey)
	return exam.overview, err
}

// Resources returns the exam's ExamResources. It fails like Overview.
func (s *Snapshot) Resources(examKey string) (Document, error) {
	exam, err := s.exam(examKey)
	return exam.resources, err
}

// StudyPath returns the exam's ExamStudyPath. It fails like Overview.
func (s *Snapshot) StudyPath(examKey string) (Document, error) {
	exam, err := s.exam(examKey)
	return exam.studyPath, err
}

// Papers returns the exam's MockPaperCatalog. It fails like Overview.
func (s *Snapshot) Papers(examKey string) (Document, error) {
	exam, err := s.exam(examKey)
	return exam.list, err
}

// Paper returns the published revision of a paper. It fails with *catalog.NotFoundError, *catalog.UnreadableError or
// *catalog.UnavailableError.
func (s *Snapshot) Paper(ctx context.Context, examKey, paperID string) (*PaperRevision, error) {
	exam, err := s.exam(examKey)
	if err != nil {
		return nil, err
	}
	paper, ok := exam.papers[paperID]
	if !ok {
		return nil, &catalog.NotFoundError{What: "paper", Name: paperID}
	}
	return s.Revision(ctx, examKey, paper.digest)
}

// Revision returns a paper's revision by its digest, also if it is no longer published. It fails like Paper.
func (s *Snapshot) Revision(ctx context.Context, examKey string, digest catalog.Digest) (*PaperRevision, error) {
	return s.papers.Get(ctx, examKey, digest)
}

// HasOtherRevisions reports whether this pod knows that an attempt may point at another revision of the paper than the one that
// [Snapshot.Paper] returns. It is false only while the paper has one revision. If the exam is also [Snapshot.Current], paging needs
// no look-up of an open attempt. A paper that is not served, or whose exam cannot be read, may have any number of revisions.
func (s *Snapshot) HasOtherRevisions(examKey, paperID string) bool {
	exam, err := s.exam(examKey)
	paper, ok := exam.papers[paperID]
	return err != nil || exam.unreadable != "" || !ok || paper.otherRevisions
}

// Current reports whether this pod has all that is published of an exam, as far as it can know: the listener is connected, and no
// notification waits for its refresh. A pod hears of a revision some milliseconds after its commit.
func (s *Snapshot) Current(examKey string) bool { return s.news.isCurrent(examKey) }

// revision returns the cache key of a paper's revision.
func (s *Snapshot) revision(examKey string, digest catalog.Digest) revisionID {
	id := revisionID{examKey: examKey, digest: digest}
	if exam := s.current.Load().exams[examKey]; exam != nil {
		id.repairs = exam.state.Repairs
	}
	return id
}

// exam returns a served exam. It fails with *catalog.NotFoundError, or with *catalog.UnavailableError if the catalogue was
// never loaded or this pod could never read the exam; it then returns an empty view.
func (s *Snapshot) exam(examKey string) (*examView, error) {
	exams := s.current.Load().exams
	exam := exams[examKey]
	switch {
	case exams == nil:
		return &examView{}, &catalog.UnavailableError{Err: errors.New("not loaded yet")}
	case exam == nil || exam.state.Withdrawn:
		return &examView{}, &catalog.NotFoundError{What: "exam", Name: examKey}
	case exam.papers == nil:
		cause := &catalog.UnreadableError{What: "exam", Name: examKey, Err: errors.New(exam.unreadable)}
		return &examView{}, &catalog.UnavailableError{Err: cause}
	}
	return exam, nil
}
