package catalog

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
)

// Claim names the one resource that an exam key belongs to.
type Claim struct {
	Cluster   string
	Namespace string
	Name      string
}

// String prints "cluster/namespace/name".
func (c Claim) String() string { return c.Cluster + "/" + c.Namespace + "/" + c.Name }

// Notifier is told, after a commit, that the outbox holds something new; it must not block. *webhooks.Notifier is one.
type Notifier interface{ Notify() }

// Options shape one Publish.
type Options struct {
	// Adopt takes the claim from whoever holds it.
	Adopt bool
	// Pin, when positive, publishes the content of that earlier revision instead of the given exam, of which only the
	// key is read then: a roll-back must work while the declared content is broken.
	Pin int64
	// HistoryLimit is how many revisions are kept, the published one included; 0 keeps all.
	HistoryLimit int
}

// Publication tells what is published after a Publish.
type Publication struct {
	Revision int64
	// Changed is false when everything was published already and nothing was written.
	Changed bool
	// Digest identifies the exam's content; equal content has equal digests.
	Digest Digest
	// PaperDigests maps each published paper's ID to its revision.
	PaperDigests map[string]Digest
	// Unsealed lists, sorted, the papers that are published without a matching verification seal; sandbox only.
	Unsealed []string
}

// Publisher writes exams into Postgres. It is safe for concurrent use, also by several processes.
type Publisher struct {
	pool     *pgxpool.Pool
	env      postgres.Environment
	notifier Notifier
}

// NewPublisher returns a Publisher on pool. In postgres.Production it refuses papers without a matching seal.
func NewPublisher(pool *pgxpool.Pool, env postgres.Environment, notifier Notifier) *Publisher {
	return &Publisher{pool: pool, env: env, notifier: notifier}
}

var errUnfinished = errors.New("catalog: unfinished")

// Publish makes exam what is served under its key, in one transaction, and returns what is published then. Content that
// is published already costs one SELECT and writes nothing.
//
// It fails with *ValidationError, *ClaimConflictError, *SealError or *RevisionNotFoundError; nothing is published then.
func (p *Publisher) Publish(ctx context.Context, claim Claim, exam Exam, options Options) (Publication, error) {
	return Publication{}, errUnfinished
}

// Release gives up claim on examKey. With deleteContent the exam is withdrawn: no longer served, while attempts in hand
// can still be submitted; otherwise it stays served as it is. A claim that is not the owner's changes nothing.
func (p *Publisher) Release(ctx context.Context, claim Claim, examKey string, deleteContent bool) error {
	return errUnfinished
}

// Diff tells how exam differs from what is published under its key, question by question.
func (p *Publisher) Diff(ctx context.Context, exam Exam) ([]Change, error) {
	return nil, errUnfinished
}
