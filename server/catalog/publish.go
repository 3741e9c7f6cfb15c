package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
)

const (
	// writeTimeout bounds one Publish or Release: the largest exam that validates takes seconds.
	writeTimeout = 2 * time.Minute
	// supersededFor is how long a revision has a successor before it can be pruned. A pod that has not read the successor
	// opens papers of the old revision, and returns 503 for those that were pruned.
	supersededFor = time.Hour
	// stagedBytes bounds what one batch of papers holds in memory.
	stagedBytes = 8 << 20
)

// Options shape one Publish.
type Options struct {
	// Adopt takes the claim from any owner.
	Adopt bool
	// AdoptFrom takes the claim from this owner only. A caller that checks its permission before each adoption must not take
	// the claim from an owner that came later.
	AdoptFrom *Claim
	// HistoryLimit is the number of revisions to keep, including the published one; 0 keeps all. Revisions superseded within
	// the last hour, and papers that an attempt has opened, are kept whatever the limit.
	HistoryLimit int
	// Remembered is the caller's last Publication. Without it fewer changes in the database are found and repaired: not a lost
	// claim, a changed time of publication, or a deleted exam.
	Remembered Remembered
}

// Remembered is the part of its last Publication that an owner keeps; zero without one.
type Remembered struct {
	Revision    int64
	PublishedAt time.Time
}

// Publication is the published state after a Publish.
type Publication struct {
	Revision int64
	// Changed is false if everything was published already. Then nothing was written, or only the claim moved.
	Changed bool
	// Digest identifies the exam's content; equal content has equal digests.
	Digest Digest
	// PaperDigests maps each published paper's ID to its revision, QuestionCounts to its number of questions.
	PaperDigests   map[string]Digest
	QuestionCounts map[string]int
	// PublishedAt is the time when Revision was published.
	PublishedAt time.Time
	// Repaired is the last repair of the published revision; nil without one.
	Repaired *Repair
	// Unsealed lists, sorted, the papers that are published without a trusted verification seal: in sandbox, or since a time
	// before the present trusted verifiers.
	Unsealed []string
}

// Publisher writes exams into Postgres. It is safe for concurrent use, also by several processes.
type Publisher struct {
	pool *pgxpool.Pool
	env  postgres.Environment
	now  func() time.Time
	// verifiers is nil if seals need no signature.
	verifiers Verifiers
}

// NewPublisher returns a Publisher on pool. In postgres.Production it refuses papers without a matching seal. It
// wakes no webhook worker: their sweep finds the events.
func NewPublisher(pool *pgxpool.Pool, env postgres.Environment) *Publisher {
	return &Publisher{pool: pool, env: env, now: time.Now}
}

// Publish publishes exam under its key, in one transaction, and returns the published state. Content that is published already,
// under the same claim, costs one SELECT and writes nothing. If the seal gate refuses a paper, the published content stays. If
// nothing is served under the key, Publish still takes a free claim: the key belongs to its first declarer. A claim on a served
// exam moves only with a publication.
//
// It fails with *ClaimConflictError or *SealError, and of a zero ValidExam with ErrNotValidated; nothing is published then.
func (p *Publisher) Publish(ctx context.Context, claim Claim, exam ValidExam, options Options) (Publication, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next, err := prepare(exam)
	if err != nil {
		return Publication{}, fmt.Errorf("prepare exam %s: %w", exam.Key(), err)
	}
	return settle(func(lenient bool) (Publication, error) { return p.tryPublish(ctx, claim, next, options, lenient) })
}

// RollBack publishes the content of an earlier revision under a new number. It needs no declared exam, so it works while the declared
// content is broken. It takes the claim from another owner as Publish does. It takes no free claim and brings no withdrawn exam back,
// unless options.Remembered shows that the claimant published the exam before.
//
// It fails with *ClaimConflictError, *SealError, *RevisionNotFoundError or *DamagedError; nothing is published then.
func (p *Publisher) RollBack(ctx context.Context, claim Claim, examKey string, revision int64, options Options) (Publication, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return settle(func(lenient bool) (Publication, error) {
		return p.restore(ctx, claim, examKey, revision, options, lenient)
	})
}

func (p *Publisher) tryPublish(ctx context.Context, claim Claim, next *draft, options Options, lenient bool) (Publication, error) {
	key := next.exam.Key
	p.judge(key, next.papers)
	current, err := p.state(ctx, key)
	if err != nil {
		return Publication{}, err
	}
	if err := current.admit(key, claim, options); err != nil {
		return Publication{}, err
	}
	if current.ownedBy(claim) && current.serves(next.digest) && current.intact {
		return current.publication(&next.content), nil
	}
	ungated := lenient && current.serves(next.digest)
	if !ungated {
		if err := p.refuse(ctx, claim, next, current); err != nil {
			return Publication{}, err
		}
	}
	published, err := p.flip(ctx, claim, &next.content, next, options, ungated)
	return current.recall(published), err
}

// refuse returns the seal gate's reason to refuse next, nil if it passes. It takes a free claim on an exam that is not served.
func (p *Publisher) refuse(ctx context.Context, claim Claim, next *draft, current state) error {
	refusal, err := p.refuseUnsealed(ctx, next, current)
	if err != nil || refusal == nil {
		return err
	}
	if refusal.Owner = current.otherThan(claim); refusal.Owner != nil {
		refusal.Changes = nil // they contain the owner's answers
		return refusal
	}
	taken, err := p.take(ctx, claim, next.exam.Key)
	if err != nil {
		return err
	}
	if !taken {
		refusal.Unclaimed, refusal.Changes = true, nil
	}
	return refusal
}

// restore publishes the content of revision pin.
func (p *Publisher) restore(ctx context.Context, claim Claim, examKey string, pin int64, options Options, lenient bool) (Publication, error) {
	missing := &RevisionNotFoundError{ExamKey: examKey, Revision: pin}
	row, err := catalogdb.New(p.pool).PinnedState(ctx, catalogdb.PinnedStateParams{ExamKey: examKey, Pin: pin})
	if isNoRows(err) {
		return Publication{}, missing
	}
	if err != nil {
		return Publication{}, fmt.Errorf("read exam %s: %w", examKey, err)
	}
	current := newState(row.ClaimCluster, row.ClaimNamespace, row.ClaimName, row.Revision, row.Digest, row.Withdrawn).
		describe(row.Intact, row.PublishedAt, row.RepairedAt, row.RepairedChanges)
	if err := current.admit(examKey, claim, options); err != nil {
		return Publication{}, err
	}
	if row.PinnedDigest == nil {
		return Publication{}, missing
	}
	if err := current.admitRollBack(examKey, pin, options); err != nil {
		return Publication{}, err
	}
	pinned, err := pinnedContent(row)
	if err != nil || !row.PinnedIntact {
		return Publication{}, &DamagedError{ExamKey: examKey, Revision: pin}
	}
	pinned.pin = pin
	p.judge(examKey, pinned.papers)
	served := current.serves(pinned.digest)
	if current.ownedBy(claim) && served && current.intact {
		return current.publication(pinned), nil
	}
	ungated := lenient && served
	if !ungated {
		if err := p.refusePinned(examKey, pin, pinned, current.otherThan(claim)); err != nil {
			return Publication{}, err
		}
	}
	// The papers are staged already.
	published, err := p.flip(ctx, claim, pinned, nil, options, ungated)
	return current.recall(published), err
}

func pinnedContent(row catalogdb.PinnedStateRow) (*content, error) {
	pinned := &content{document: row.PinnedDocument, papers: make([]paperRef, len(row.PaperIds))}
	copy(pinned.digest[:], row.PinnedDigest)
	if err := json.Unmarshal(row.PinnedDocument, &pinned.exam); err != nil {
		return nil, err
	}
	for i, id := range row.PaperIds {
		paper := &pinned.papers[i]
		paper.PaperID, paper.Questions = id, int(row.PaperCounts[i])
		copy(paper.Digest[:], row.PaperDigests[i])
		copy(paper.Seal[:], row.PaperSeals[i])
		if err := json.Unmarshal([]byte(row.PaperVerifications[i]), &paper.Verification); err != nil {
			return nil, err
		}
		paper.Sealed = paper.Verification.of(paper.Seal) // the row's own column may have been changed
	}
	return pinned, nil
}

// maxReads is the number of times that a Publish reads the served revision. The last try trusts no earlier read.
const maxReads = 3

// errOvertaken: the served revision changed between the first read and the lock.
var errOvertaken = errors.New("the served revision changed in the meantime")

// settle repeats publish until its first read still holds under the lock. A lenient publish does not run the seal gate on the
// served content, which passed the gate when it was published and is only repaired or adopted. The last try runs the gate on
// every paper and always ends: other publishers can be faster each time, and a pointer that was moved by hand never holds.
func settle(publish func(lenient bool) (Publication, error)) (Publication, error) {
	for range maxReads - 1 {
		if published, err := publish(true); !errors.Is(err, errOvertaken) {
			return published, err
		}
	}
	return publish(false)
}

// flip is the transaction. It writes claim, papers, revision, pointer, event and notification, and prunes; or it repairs the
// published revision. source has the papers of next; nil for a pin, whose papers are stored. It does not publish ungated content
// under a new number: errOvertaken.
func (p *Publisher) flip(ctx context.Context, claim Claim, next *content, source *draft, options Options, ungated bool) (Publication, error) {
	key := next.exam.Key
	var published Publication
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		q := catalogdb.New(tx)
		current, err := lock(ctx, q, key, claim, options)
		if err == nil && next.pin > 0 {
			err = current.admitRollBack(key, next.pin, options)
		}
		if err != nil {
			return err
		}
		found, err := inspect(ctx, q, key, current.revision)
		if err != nil {
			return err
		}
		change := &change{claim: claim, next: next, source: source, options: options, current: current, found: found, at: p.now().UTC().Truncate(time.Microsecond)}
		if found.carries(next.digest, current) { // another publisher came first, only the claim is new, or the database was changed
			published, err = change.repair(ctx, q)
			return err
		}
		if ungated {
			return errOvertaken
		}
		if published, err = change.publish(ctx, q); err != nil {
			return err
		}
		return p.prune(ctx, tx, key, published.Revision, options.HistoryLimit)
	})
	if err != nil {
		return Publication{}, fmt.Errorf("publish exam %s: %w", key, err)
	}
	return published, nil
}

// stage inserts, in batches, the papers that Postgres lacks or whose stored form was changed.
func (d *draft) stage(ctx context.Context, q *catalogdb.Queries) error {
	digests := make([][]byte, len(d.papers))
	for i := range d.papers {
		digests[i] = d.papers[i].Digest[:]
	}
	staged, err := q.StagedPapers(ctx, catalogdb.StagedPapersParams{ExamKey: d.exam.Key, Digests: digests})
	if err != nil {
		return fmt.Errorf("look for staged papers: %w", err)
	}
	have := make(map[Digest]bool, len(staged))
	for _, digest := range staged {
		have[Digest(digest)] = true
	}
	var batch []catalogdb.StagePaperParams
	size := 0
	for i := range d.papers {
		if have[d.papers[i].Digest] {
			continue
		}
		row, err := d.row(i)
		if err != nil {
			return err
		}
		batch = append(batch, row)
		if size += len(row.Questions) + len(row.AnswerKey); size >= stagedBytes {
			if err := send(ctx, q, batch); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
	}
	return send(ctx, q, batch)
}

func send(ctx context.Context, q *catalogdb.Queries, batch []catalogdb.StagePaperParams) error {
	if len(batch) == 0 {
		return nil
	}
	var failed error
	q.StagePaper(ctx, batch).Exec(func(i int, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("stage paper %s: %w", batch[i].PaperID, err)
		}
	})
	return failed
}
