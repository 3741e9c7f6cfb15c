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
	// Adopt takes the claim from whoever holds it.
	Adopt bool
	// AdoptFrom takes the claim if this one holds it: for a caller who asks before each adoption whether it may be, and
	// must not take from somebody else who came in between.
	AdoptFrom *Claim
	// HistoryLimit is how many revisions are kept, the published one included; 0 keeps all. Revisions superseded within
	// the last hour, and papers that an attempt has opened, are kept whatever the limit.
	HistoryLimit int
	// Remembered is what the caller was told when it published last. Without it less of what somebody did in the database
	// can be told or put right: a lost claim, a changed time of publication, an exam that is not there any more.
	Remembered Remembered
}

// Remembered is what an owner keeps of its last Publication; zero when it has none.
type Remembered struct {
	Revision    int64
	PublishedAt time.Time
}

// Publication tells what is published after a Publish.
type Publication struct {
	Revision int64
	// Changed is false when everything was published already; nothing was written then, or only the claim moved.
	Changed bool
	// Digest identifies the exam's content; equal content has equal digests.
	Digest Digest
	// PaperDigests maps each published paper's ID to its revision, QuestionCounts to how many questions that has.
	PaperDigests   map[string]Digest
	QuestionCounts map[string]int
	// PublishedAt is when Revision was published.
	PublishedAt time.Time
	// Repaired tells how what is published was last found changed in the database, and put right, since it was published;
	// nil when it was not.
	Repaired *Repair
	// Unsealed lists, sorted, the papers that are published without a verification seal that counts: in sandbox, or from
	// before the trusted verifiers were what they are now.
	Unsealed []string
}

// Publisher writes exams into Postgres. It is safe for concurrent use, also by several processes.
type Publisher struct {
	pool *pgxpool.Pool
	env  postgres.Environment
	now  func() time.Time
	// verifiers is nil where a seal needs no signature.
	verifiers Verifiers
}

// NewPublisher returns a Publisher on pool. In postgres.Production it refuses papers without a matching seal. It
// wakes no webhook worker: their sweep finds the events.
func NewPublisher(pool *pgxpool.Pool, env postgres.Environment) *Publisher {
	return &Publisher{pool: pool, env: env, now: time.Now}
}

// Publish makes exam what is served under its key, in one transaction, and returns what is published then. Content that
// is published already, under the same claim, costs one SELECT and writes nothing. A paper that the seal gate refuses
// leaves the content as it was. If nothing is served under the key, a free claim is taken all the same: the key belongs to
// the first who declared it. A claim on a served exam stays as it is, free or another's, until there is something to publish.
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

// refuse returns why the seal gate does not let next pass, nil if it does. A free claim on an exam that is not served is taken all the
// same.
func (p *Publisher) refuse(ctx context.Context, claim Claim, next *draft, current state) error {
	refusal, err := p.refuseUnsealed(ctx, next, current)
	if err != nil || refusal == nil {
		return err
	}
	if refusal.Owner = current.otherThan(claim); refusal.Owner != nil {
		refusal.Changes = nil // they would tell one who holds nothing of the owner's answers
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
		paper.Sealed = paper.Verification.of(paper.Seal) // and not as its row says, which somebody may have changed
	}
	return pinned, nil
}

// maxReads is how often a Publish looks at what is served before it stops believing what it sees.
const maxReads = 3

// errOvertaken says that what was seen to be served is not, once nobody else can change it.
var errOvertaken = errors.New("what is served has changed meanwhile")

// settle has publish look at what is served, and do what that asks for, until it holds under the lock. A lenient publish
// does not ask the seal gate about what is served: it was judged when it was published, and is only repaired or adopted.
// The last publish asks it about everything, which ends this: others may be faster every time, and a pointer that somebody
// moved by hand, off the newest revision, never holds.
func settle(publish func(lenient bool) (Publication, error)) (Publication, error) {
	for range maxReads - 1 {
		if published, err := publish(true); !errors.Is(err, errOvertaken) {
			return published, err
		}
	}
	return publish(false)
}

// flip is the transaction: claim, papers, revision, pointer, event, notification, pruning; or the repair of what is
// published already. source brings the papers that next refers to; nil for a pin, whose papers are stored. What is ungated
// is not published anew: errOvertaken.
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
		if found.carries(next.digest, current) { // another publisher came first, only the claim is new, or somebody meddled
			published, err = change.mend(ctx, q)
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

// stage inserts the papers that Postgres does not have yet, or not as they were written, in batches.
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
