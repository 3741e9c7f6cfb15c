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

	// Of withdrawn exams, which are known but not served, what follows is empty.

	entry                                ExamEntry
	overview, resources, studyPath, list Document
	papers                               map[string]paperView
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
	if s.papers, err = newRevisionCache(cfg.PaperCacheBytes, cfg.LoadTimeout, s.loadPaper); err != nil {
		return nil, err
	}
	if s.keys, err = newRevisionCache(cfg.KeyCacheBytes, cfg.LoadTimeout, s.loadAnswerKey); err != nil {
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

// Overview returns the exam's ExamOverview.
func (s *Snapshot) Overview(examKey string) (Document, bool) {
	if exam := s.served(examKey); exam != nil {
		return exam.overview, true
	}
	return Document{}, false
}

// Resources returns the exam's ExamResources.
func (s *Snapshot) Resources(examKey string) (Document, bool) {
	if exam := s.served(examKey); exam != nil {
		return exam.resources, true
	}
	return Document{}, false
}

// StudyPath returns the exam's ExamStudyPath.
func (s *Snapshot) StudyPath(examKey string) (Document, bool) {
	if exam := s.served(examKey); exam != nil {
		return exam.studyPath, true
	}
	return Document{}, false
}

// Papers returns the exam's MockPaperCatalog.
func (s *Snapshot) Papers(examKey string) (Document, bool) {
	if exam := s.served(examKey); exam != nil {
		return exam.list, true
	}
	return Document{}, false
}

// Paper returns the published revision of a paper. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) Paper(ctx context.Context, examKey, paperID string) (*PaperRevision, error) {
	exam := s.served(examKey)
	if exam == nil {
		if !s.Ready() {
			return nil, &UnavailableError{Err: errors.New("not loaded yet")}
		}
		return nil, &NotFoundError{What: "exam", Name: examKey}
	}
	paper, ok := exam.papers[paperID]
	if !ok {
		return nil, &NotFoundError{What: "paper", Name: paperID}
	}
	return s.Revision(ctx, examKey, paper.digest)
}

// Revision returns a paper's revision by its digest, published still or not. It fails with *NotFoundError or
// *UnavailableError.
func (s *Snapshot) Revision(ctx context.Context, examKey string, digest Digest) (*PaperRevision, error) {
	return s.papers.get(ctx, revisionID{examKey, digest, s.repairs(examKey)})
}

// AnswerKey returns what a paper's revision is scored by. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) AnswerKey(ctx context.Context, examKey string, digest Digest) (*AnswerKey, error) {
	return s.keys.get(ctx, revisionID{examKey, digest, s.repairs(examKey)})
}

// Republished reports whether an attempt may point at another revision of the paper than the published one. It is false
// only while the paper has one revision: then paging needs no look-up of an open attempt. What is not served may have
// any number of revisions.
func (s *Snapshot) Republished(examKey, paperID string) bool {
	exam := s.served(examKey)
	if exam == nil {
		return true
	}
	paper, ok := exam.papers[paperID]
	return !ok || paper.republished
}

// repairs is how often the exam's content was put right, as far as is known.
func (s *Snapshot) repairs(examKey string) int64 {
	if v := s.current.Load(); v != nil && v.exams[examKey] != nil {
		return v.exams[examKey].state.repairs
	}
	return 0
}

// served returns nil for an exam that is unknown or withdrawn.
func (s *Snapshot) served(examKey string) *examView {
	v := s.current.Load()
	if v == nil {
		return nil
	}
	exam := v.exams[examKey]
	if exam == nil || exam.state.withdrawn {
		return nil
	}
	return exam
}
