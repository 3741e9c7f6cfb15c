package catalog

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
}

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
type Snapshot struct{}

// OpenSnapshot makes a Snapshot and tries to load it. A database that does not answer is no error: the Snapshot is not
// Ready then, and Run goes on trying.
func OpenSnapshot(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, cfg SnapshotConfig) (*Snapshot, error) {
	return nil, errUnfinished
}

// Run keeps the Snapshot current until ctx ends, and returns nil then.
func (s *Snapshot) Run(ctx context.Context) error { return errUnfinished }

// Ready reports whether the catalogue was loaded once.
func (s *Snapshot) Ready() bool { return false }

// List returns every served exam, by name. The slice must not be changed.
func (s *Snapshot) List() []ExamEntry { return nil }

// Overview returns the exam's ExamOverview.
func (s *Snapshot) Overview(examKey string) (Document, bool) { return Document{}, false }

// Resources returns the exam's ExamResources.
func (s *Snapshot) Resources(examKey string) (Document, bool) { return Document{}, false }

// StudyPath returns the exam's ExamStudyPath.
func (s *Snapshot) StudyPath(examKey string) (Document, bool) { return Document{}, false }

// Papers returns the exam's MockPaperCatalog.
func (s *Snapshot) Papers(examKey string) (Document, bool) { return Document{}, false }

// Paper returns the published revision of a paper. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) Paper(ctx context.Context, examKey, paperID string) (*PaperRevision, error) {
	return nil, errUnfinished
}

// Revision returns a paper's revision by its digest, published still or not. It fails with *NotFoundError or
// *UnavailableError.
func (s *Snapshot) Revision(ctx context.Context, examKey string, digest Digest) (*PaperRevision, error) {
	return nil, errUnfinished
}

// AnswerKey returns what a paper's revision is scored by. It fails with *NotFoundError or *UnavailableError.
func (s *Snapshot) AnswerKey(ctx context.Context, examKey string, digest Digest) (*AnswerKey, error) {
	return nil, errUnfinished
}

// Republished reports whether an attempt may point at another revision of the paper than the published one. It is false
// only while the paper has one revision: then paging needs no look-up of an open attempt.
func (s *Snapshot) Republished(examKey, paperID string) bool { return true }
