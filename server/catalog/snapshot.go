package catalog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// SnapshotConfig bounds a Snapshot; zero values take the defaults.
type SnapshotConfig struct {
	// PaperCacheBytes and KeyCacheBytes bound the caches of papers and of answer keys, in bytes; 256 MiB and 64 MiB by
	// default.
	PaperCacheBytes uint64
	KeyCacheBytes   uint64
	// PollInterval is the time between two looks at all revisions, the safety net of LISTEN; 10 s by default.
	PollInterval time.Duration
	// LoadTimeout bounds each read from Postgres; 5 s by default.
	LoadTimeout time.Duration
	// Registerer takes the Snapshot's metrics; nil: none. One process has one Snapshot.
	Registerer prometheus.Registerer
}

// Defaults of SnapshotConfig.
const (
	defaultPaperCacheBytes = 256 << 20
	defaultKeyCacheBytes   = 64 << 20
	defaultPollInterval    = 10 * time.Second
	defaultLoadTimeout     = 5 * time.Second
)

// Document is a finished response body with its strong ETag, quotes included. Its bytes must not be changed.
type Document struct {
	JSON []byte
	ETag string
}

// ExamEntry is one exam of the list: what it is ordered by, and its finished ExamSummary.
type ExamEntry struct {
	Key         string
	Name        string
	Country     string
	CountryCode string
	JSON        []byte
}

// Snapshot is what an API pod knows of the catalogue. All methods are safe for concurrent use; those without a context
// never wait.
type Snapshot struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
	cfg    SnapshotConfig

	// current is nil until the catalogue was loaded once; a view never changes after it is stored.
	current atomic.Pointer[view]
	stale   *staleSet
	metrics *snapshotMetrics
	papers  *revisionCache[*PaperRevision]
	keys    *revisionCache[*AnswerKey]
	// opened remembers the revisions that MarkOpened has marked.
	opened *revisionCache[struct{}]

	watching sync.Mutex
	watchers []func([]ExamEntry)
}

// view is the whole catalogue at one moment.
type view struct {
	exams map[string]*examView
	list  []ExamEntry
}

// examView is one exam's published revision, rendered.
type examView struct {
	state examState
	// unreadable is why the published revision cannot be read; empty if it can. All else is then as it was read last.
	unreadable string

	// The fields below are empty if the exam is not served: it is withdrawn, or this pod was never able to read it.

	entry                                ExamEntry
	overview, resources, studyPath, list Document
	papers                               map[string]paperView // nil if the exam is not served
}

// examState is what tells an exam that must be read anew from one that is known.
type examState struct {
	revision  int64
	withdrawn bool
	// repairs counts how often stored content was put right, behind digests that stayed the same.
	repairs int64
}

type paperView struct {
	digest      Digest
	republished bool
}

// OpenSnapshot makes a Snapshot and tries to load it. A database that does not answer is no error: the Snapshot is not
// Ready then, and Run goes on trying. Only a configuration that makes no sense fails.
func OpenSnapshot(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, cfg SnapshotConfig) (*Snapshot, error) {
	if cfg.PollInterval < 0 || cfg.LoadTimeout < 0 {
		return nil, errors.New("catalog: negative durations in SnapshotConfig")
	}
	setDefault(&cfg.PaperCacheBytes, defaultPaperCacheBytes)
	setDefault(&cfg.KeyCacheBytes, defaultKeyCacheBytes)
	setDefault(&cfg.PollInterval, defaultPollInterval)
	setDefault(&cfg.LoadTimeout, defaultLoadTimeout)
	s := &Snapshot{pool: pool, logger: logger, cfg: cfg, stale: newStaleSet()}
	var err error
	if s.papers, err = newRevisionCache("paper", cfg.PaperCacheBytes, cfg.LoadTimeout, s.loadPaper); err != nil {
		return nil, err
	}
	if s.keys, err = newRevisionCache("answer key", cfg.KeyCacheBytes, cfg.LoadTimeout, s.loadAnswerKey); err != nil {
		return nil, err
	}
	if s.opened, err = newRevisionCache("mark of an opened paper", openedCacheBytes, cfg.LoadTimeout, s.storeOpened); err != nil {
		return nil, err
	}
	s.metrics = newSnapshotMetrics(s)
	if err := s.refresh(ctx, request{all: true}); err != nil {
		logger.WarnContext(ctx, "catalogue not loaded yet", "error", err)
		s.stale.addAll()
	}
	return s, nil
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// Run keeps the Snapshot current until ctx ends, and returns nil then.
func (s *Snapshot) Run(ctx context.Context) error {
	var loops errgroup.Group
	loops.Go(func() error { s.listen(ctx); return nil })
	loops.Go(func() error { s.follow(ctx); return nil })
	return loops.Wait()
}

// Ready reports whether the catalogue was loaded once. It stays true when Postgres goes away.
func (s *Snapshot) Ready() bool { return s.current.Load() != nil }

// List returns every served exam, by name. The slice must not be changed.
func (s *Snapshot) List() []ExamEntry {
	if v := s.current.Load(); v != nil {
		return v.list
	}
	return nil
}

// OnChange calls changed with the list now, and again before each change of the catalogue becomes visible. Calls never
// overlap. changed must not modify the slice.
func (s *Snapshot) OnChange(changed func([]ExamEntry)) {
	s.watching.Lock()
	defer s.watching.Unlock()
	s.watchers = append(s.watchers, changed)
	changed(s.List())
}

// publish makes v the catalogue.
func (s *Snapshot) publish(v *view) {
	s.watching.Lock()
	defer s.watching.Unlock()
	for _, changed := range s.watchers {
		changed(v.list)
	}
	s.current.Store(v)
}

// Overview returns the exam's ExamOverview. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) Overview(examKey string) (Document, error) {
	return s.document(examKey, func(exam *examView) Document { return exam.overview })
}

// Resources returns the exam's ExamResources. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) Resources(examKey string) (Document, error) {
	return s.document(examKey, func(exam *examView) Document { return exam.resources })
}

// StudyPath returns the exam's ExamStudyPath. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) StudyPath(examKey string) (Document, error) {
	return s.document(examKey, func(exam *examView) Document { return exam.studyPath })
}

// Papers returns the exam's MockPaperCatalog. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) Papers(examKey string) (Document, error) {
	return s.document(examKey, func(exam *examView) Document { return exam.list })
}

func (s *Snapshot) document(examKey string, choose func(*examView) Document) (Document, error) {
	exam, err := s.exam(examKey)
	if err != nil {
		return Document{}, err
	}
	return choose(exam), nil
}

// Paper returns the published revision of a paper. It fails with *NotFoundError, *UnreadableError or *UnavailableError.
func (s *Snapshot) Paper(ctx context.Context, examKey, paperID string) (*PaperRevision, error) {
	exam, err := s.exam(examKey)
	if err != nil {
		return nil, err
	}
	paper, ok := exam.papers[paperID]
	if !ok {
		return nil, &NotFoundError{What: "paper", Name: paperID}
	}
	return s.Revision(ctx, examKey, paper.digest)
}

// Revision returns a paper's revision by its digest, published still or not. It fails with *NotFoundError,
// *UnreadableError or *UnavailableError.
func (s *Snapshot) Revision(ctx context.Context, examKey string, digest Digest) (*PaperRevision, error) {
	return s.papers.get(ctx, s.revision(examKey, digest))
}

// AnswerKey returns what a paper's revision is scored by. It fails with *NotFoundError, *UnreadableError or
// *UnavailableError.
func (s *Snapshot) AnswerKey(ctx context.Context, examKey string, digest Digest) (*AnswerKey, error) {
	return s.keys.get(ctx, s.revision(examKey, digest))
}

// Republished reports whether an attempt may point at another revision of the paper than the one that [Snapshot.Paper]
// returns. It is false only while the paper has one revision: then paging needs no look-up of an open attempt. A paper that
// is not served, or whose exam cannot be read, may have any number of revisions.
func (s *Snapshot) Republished(examKey, paperID string) bool {
	exam, err := s.exam(examKey)
	if err != nil || exam.unreadable != "" {
		return true
	}
	paper, ok := exam.papers[paperID]
	return !ok || paper.republished
}

// revision is the cache key of a paper's revision, with the exam's repairs as far as they are known.
func (s *Snapshot) revision(examKey string, digest Digest) revisionID {
	id := revisionID{examKey: examKey, digest: digest}
	if v := s.current.Load(); v != nil && v.exams[examKey] != nil {
		id.repairs = v.exams[examKey].state.repairs
	}
	return id
}

// exam returns a served exam. It fails with *NotFoundError, or with *UnavailableError if the catalogue was never loaded or
// this pod could never read the exam.
func (s *Snapshot) exam(examKey string) (*examView, error) {
	v := s.current.Load()
	if v == nil {
		return nil, &UnavailableError{Err: errors.New("not loaded yet")}
	}
	exam := v.exams[examKey]
	switch {
	case exam == nil || exam.state.withdrawn:
		return nil, &NotFoundError{What: "exam", Name: examKey}
	case exam.papers == nil:
		return nil, &UnavailableError{Err: &UnreadableError{What: "exam", Name: examKey, Err: errors.New(exam.unreadable)}}
	}
	return exam, nil
}
