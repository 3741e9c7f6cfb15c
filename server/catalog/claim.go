package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/webhooks"
)

// Claim names the resource that owns an exam key.
type Claim struct {
	Cluster   string
	Namespace string
	Name      string
}

// String prints "cluster/namespace/name".
func (c Claim) String() string { return c.Cluster + "/" + c.Namespace + "/" + c.Name }

// state is an exam's row: its owner and its published revision.
type state struct {
	// owner is nil if the claim is free.
	owner     *Claim
	revision  int64
	digest    Digest
	withdrawn bool

	// Only Publisher.state sets the following fields.

	// intact reports whether the stored published revision equals the written one.
	intact      bool
	publishedAt time.Time
	repaired    *Repair
}

func newState(cluster, namespace, name *string, revision int64, digest []byte, withdrawn bool) state {
	s := state{revision: revision, withdrawn: withdrawn}
	copy(s.digest[:], digest)
	if cluster != nil && namespace != nil && name != nil {
		s.owner = &Claim{*cluster, *namespace, *name}
	}
	return s
}

// admit refuses a claimant while another holds the claim, unless it may adopt from that one.
func (s state) admit(examKey string, claim Claim, options Options) error {
	other := s.otherThan(claim)
	if other == nil || options.Adopt || options.AdoptFrom != nil && *options.AdoptFrom == *other {
		return nil
	}
	return &ClaimConflictError{ExamKey: examKey, Owner: *other}
}

// admitRollBack refuses a claimant that has published nothing under the key. A roll-back brings no sealed papers of its own: such a
// claimant could get a free key with it, bring a withdrawn exam back, and see its answers.
func (s state) admitRollBack(examKey string, revision int64, options Options) error {
	if s.served() && s.owner != nil || options.Remembered.Revision > 0 {
		return nil
	}
	return &RevisionNotFoundError{ExamKey: examKey, Revision: revision, Unowned: true}
}

func (s state) ownedBy(claim Claim) bool { return s.owner != nil && *s.owner == claim }

// otherThan returns the owner, nil if the claim is free or claim is the owner.
func (s state) otherThan(claim Claim) *Claim {
	if s.ownedBy(claim) {
		return nil
	}
	return s.owner
}

// served reports whether the API serves content of the exam.
func (s state) served() bool { return s.revision > 0 && !s.withdrawn }

// serves reports whether the API serves this content.
func (s state) serves(digest Digest) bool { return s.served() && s.digest == digest }

// state reads an exam's row without locking it. An exam that does not exist has the zero state.
func (p *Publisher) state(ctx context.Context, examKey string) (state, error) {
	row, err := catalogdb.New(p.pool).ExamState(ctx, examKey)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return state{}, nil
	case err != nil:
		return state{}, fmt.Errorf("read exam %s: %w", examKey, err)
	}
	return newState(row.ClaimCluster, row.ClaimNamespace, row.ClaimName, row.Revision, row.Digest, row.Withdrawn).
		describe(row.Intact, row.PublishedAt, row.RepairedAt, row.RepairedChanges), nil
}

// describe adds the fields of the published revision.
func (s state) describe(intact bool, publishedAt, repairedAt *time.Time, changes []byte) state {
	s.intact = intact
	if publishedAt != nil {
		s.publishedAt = publishedAt.UTC()
	}
	if repairedAt != nil {
		s.repaired = newRepair(repairedAt.UTC(), changes)
	}
	return s
}

// publication returns c as the published content of this state.
func (s state) publication(c *content) Publication {
	published := c.publication(s.revision, false)
	published.PublishedAt, published.Repaired = s.publishedAt, s.repaired
	return published
}

// recall adds the earlier repair of a revision to a publication that found it published and intact.
func (s state) recall(published Publication) Publication {
	if published.Repaired == nil && published.Revision == s.revision {
		published.Repaired = s.repaired
	}
	return published
}

// Standing returns the published revision of an exam by one SELECT: revision, digest, time and last repair, without papers. Ok is
// false unless claim owns the exam, the exam is served, and its stored form is intact. If ok is false, call Publish.
func (p *Publisher) Standing(ctx context.Context, claim Claim, examKey string) (published Publication, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	current, err := p.state(ctx, examKey)
	if err != nil || !current.ownedBy(claim) || !current.serves(current.digest) || !current.intact {
		return Publication{}, false, err
	}
	return Publication{
		Revision: current.revision, Digest: current.digest, PublishedAt: current.publishedAt, Repaired: current.repaired,
	}, true, nil
}

// lock makes sure that the exam's row exists and holds it until the transaction ends: publishers of one exam take turns.
func lock(ctx context.Context, q *catalogdb.Queries, examKey string, claim Claim, options Options) (state, error) {
	err := q.InsertExam(ctx, catalogdb.InsertExamParams{
		ExamKey: examKey, ClaimCluster: &claim.Cluster, ClaimNamespace: &claim.Namespace, ClaimName: &claim.Name,
	})
	if err != nil {
		return state{}, fmt.Errorf("claim exam %s: %w", examKey, err)
	}
	row, err := q.LockExam(ctx, examKey)
	if err != nil {
		return state{}, fmt.Errorf("lock exam %s: %w", examKey, err)
	}
	current := newState(row.ClaimCluster, row.ClaimNamespace, row.ClaimName, row.Revision, row.Digest, row.Withdrawn)
	return current, current.admit(examKey, claim, options)
}

// take takes a free claim on an exam that is not served, and does nothing else. It reports whether the claim is the caller's. A served
// exam keeps its free claim: its next owner must have published something, because an owner can withdraw the exam.
func (p *Publisher) take(ctx context.Context, claim Claim, examKey string) (taken bool, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		q := catalogdb.New(tx)
		current, err := lock(ctx, q, examKey, claim, Options{})
		if err != nil {
			return err
		}
		if current.ownedBy(claim) {
			taken = true
			return nil
		}
		if current.served() {
			return nil
		}
		taken = true
		return moveClaim(ctx, q, examKey, claim)
	})
	return taken, err
}

func moveClaim(ctx context.Context, q *catalogdb.Queries, examKey string, claim Claim) error {
	err := q.MoveClaim(ctx, catalogdb.MoveClaimParams{
		ExamKey: examKey, ClaimCluster: &claim.Cluster, ClaimNamespace: &claim.Namespace, ClaimName: &claim.Name,
	})
	if err != nil {
		return fmt.Errorf("move claim of exam %s: %w", examKey, err)
	}
	return nil
}

// Release gives up claim on examKey; the next claimant can take it. With deleteContent the exam is withdrawn: it is no longer
// served, but attempts in progress can still be submitted. Otherwise the exam stays served. A claim that does not own the exam
// changes nothing and returns nil: the deletion of another resource must neither drop the owner's data nor hang.
func (p *Publisher) Release(ctx context.Context, claim Claim, examKey string, deleteContent bool) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		q := catalogdb.New(tx)
		before, err := q.LockExam(ctx, examKey)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		current := newState(before.ClaimCluster, before.ClaimNamespace, before.ClaimName, before.Revision, before.Digest, before.Withdrawn)
		if !current.ownedBy(claim) {
			return nil
		}
		withdraw := deleteContent && current.revision > 0 && !current.withdrawn
		at := p.now().UTC()
		if err := q.ReleaseClaim(ctx, catalogdb.ReleaseClaimParams{ExamKey: examKey, Withdraw: withdraw, At: at}); err != nil || !withdraw {
			return err
		}
		return tellWithdrawn(ctx, q, examKey, current.revision, at)
	})
	if err != nil {
		return fmt.Errorf("release exam %s: %w", examKey, err)
	}
	return nil
}

func tellWithdrawn(ctx context.Context, q *catalogdb.Queries, examKey string, revision int64, at time.Time) error {
	papers, err := q.RevisionPaperIDs(ctx, catalogdb.RevisionPaperIDsParams{ExamKey: examKey, Revision: revision})
	if err != nil {
		return err
	}
	data := webhooks.ContentUpdated{
		ExamKey: examKey, Changes: []string{changedWithdrawn}, PaperIDs: append([]string{}, papers...),
		ContentVersion: revision, UpdatedAt: at,
	}
	event, err := webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, at, data)
	if err != nil {
		return err
	}
	return q.Tell(ctx, catalogdb.TellParams{
		EventID: event.ID, EventKind: string(event.Kind), EventBody: event.Body, ExamKey: examKey,
	})
}
