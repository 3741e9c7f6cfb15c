package attempts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/text/unicode/norm"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
)

const (
	// grace is the time after its deadline in which an attempt is still in time, for slow connections.
	grace = 60 * time.Second
	// lateWindow is how long after its deadline an attempt is accepted at all.
	lateWindow = 24 * time.Hour
	// minSecretBytes is the shortest namespace secret: as long as the HMAC's output.
	minSecretBytes = sha256.Size
	// maxOpened is the maximum number of attempts that a pod remembers, about 550 bytes each.
	maxOpened = 1 << 14
)

// State is where an attempt is in its life.
type State string

// The states; all but StateInProgress are terminal.
const (
	StateInProgress State = "in_progress"
	StateSubmitted  State = "submitted"
	StateExpired    State = "expired"
	StateAbandoned  State = "abandoned"
)

// The values of scoring_status.
const (
	pending   = "pending"
	scored    = "scored"
	notScored = "not_scored"
)

// Config is what a Service is made with.
type Config struct {
	// NamespaceSecret is the key of the HMAC that replaces learner references: at least 32 bytes, equal in all pods. With
	// another secret no learner's earlier attempts are found.
	NamespaceSecret []byte
	// Now returns PostgreSQL's time, so that all pods agree about an attempt (keys/directory has it).
	Now func() time.Time
	// Bulkhead bounds the connections that one key family uses at once outside of a batch; nil: no bound.
	Bulkhead *postgres.Bulkhead
	// BatchTimeout bounds a batch (10 s). It is as long as the HTTP interface waits, so no batch fails earlier than its callers.
	BatchTimeout time.Duration
	// LockTimeout bounds the wait of a statement of a batch for one locked row (1 s). The calls of a batch that meets such a row then
	// run one by one.
	LockTimeout time.Duration
	// Registerer takes the metrics of batches; nil: none.
	Registerer prometheus.Registerer
}

// Papers is the catalogue as the engine reads it; [NewPapers] returns one. *[read.Snapshot] has its methods but AnswerKey.
type Papers interface {
	Overview(examKey string) (read.Document, error)
	Paper(ctx context.Context, examKey, paperID string) (*read.PaperRevision, error)
	Revision(ctx context.Context, examKey string, digest catalog.Digest) (*read.PaperRevision, error)
	MarkOpened(ctx context.Context, examKey string, digest catalog.Digest) error
	HasOtherRevisions(examKey, paperID string) bool
	Current(examKey string) bool
	// AnswerKey returns the prepared answer key of a revision. It fails like Revision.
	AnswerKey(ctx context.Context, examKey string, digest catalog.Digest) (*marking.Key, error)
}

// NewPapers returns the papers of a snapshot with a cache of their prepared answer keys. A snapshot can have one.
func NewPapers(s *read.Snapshot) Papers { return &papers{s, read.NewKeys(s, marking.Prepare)} }

type papers struct {
	*read.Snapshot

	keys *read.Keys[*marking.Key]
}

// AnswerKey returns the prepared key of a revision, from the cache.
func (p *papers) AnswerKey(ctx context.Context, examKey string, digest catalog.Digest) (*marking.Key, error) {
	return p.keys.Get(ctx, examKey, digest)
}

// Notifier wakes workers after each commit that wrote webhook deliveries; *webhooks.Notifier is one.
type Notifier interface {
	Notify(endpoints ...uuid.UUID)
}

// Service is the engine. It is safe for concurrent use. [NewService] makes one; it must be closed.
type Service struct {
	secret   []byte
	now      func() time.Time
	bulkhead *postgres.Bulkhead
	queries  *attemptsdb.Queries
	papers   Papers
	writer   *writer
	opened   *otter.Cache[uuid.UUID, *attemptRow]
}

// NewService starts a Service on pool. It fails when the namespace secret is too short.
func NewService(cfg Config, pool *pgxpool.Pool, papers Papers, notifier Notifier) (*Service, error) {
	if len(cfg.NamespaceSecret) < minSecretBytes {
		return nil, errors.New("the namespace secret must have at least 32 bytes")
	}
	queries := attemptsdb.New(pool)
	return &Service{
		secret: cfg.NamespaceSecret, now: cfg.Now, bulkhead: cfg.Bulkhead, queries: queries, papers: papers,
		writer: newWriter(queries, notifier, cfg),
		opened: otter.Must(&otter.Options[uuid.UUID, *attemptRow]{MaximumSize: maxOpened}),
	}, nil
}

// Close ends the batches of the Service. Call it after the last request: it cancels statements that still run. Further opens
// and submissions get an error.
func (s *Service) Close() { s.writer.close() }

// checkExam fails unless an exam is served, or exists and cannot be read.
func (s *Service) checkExam(examKey string) error {
	_, err := s.papers.Overview(examKey)
	if _, exists := errors.AsType[*catalog.UnreadableError](err); err == nil || exists {
		return nil
	}
	return translate(err)
}

// clock reads the time as Postgres stores it, so that what is returned now equals what is read back later.
func (s *Service) clock() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// learner replaces a learner reference by its internal name: HMAC-SHA256(namespace secret, key family ‖ reference), whose reference
// is normalised to NFC first. The empty reference is none.
func (s *Service) learner(who keys.Identity, reference string) []byte {
	if reference == "" {
		return []byte{}
	}
	mac := hmac.New(sha256.New, s.secret)
	_, _ = mac.Write(who.FamilyID[:])
	_, _ = mac.Write([]byte(norm.NFC.String(reference)))
	return mac.Sum(nil)
}

// deadlinePassed reports whether now is after the deadline by more than allowance. Without a deadline it never does.
func deadlinePassed(deadline *time.Time, now time.Time, allowance time.Duration) bool {
	return deadline != nil && now.After(deadline.Add(allowance))
}

// parseID reads an attempt id: a UUID in its canonical 36 characters, nothing else that uuid.Parse would take.
func parseID(text string) (uuid.UUID, bool) {
	const canonical = 36
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == canonical
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
