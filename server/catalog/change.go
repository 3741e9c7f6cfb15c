package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/webhooks"
)

// change is the work of one transaction on a locked exam.
type change struct {
	claim Claim
	next  *content
	// source has the papers of next; nil for a pin, whose papers are stored.
	source  *draft
	options Options
	current state
	found   *stored
	at      time.Time
}

// carries reports whether the published revision has this digest, also if its rows were changed.
func (s *stored) carries(digest Digest, current state) bool {
	return current.revision > 0 && !current.withdrawn && s.newest <= current.revision &&
		(current.digest == digest || s.digest == digest)
}

// publish makes next the published revision, under a new number, and writes the event.
func (c *change) publish(ctx context.Context, q *catalogdb.Queries) (Publication, error) {
	drift, err := c.displaced(ctx, q)
	if err != nil {
		return Publication{}, err
	}
	if err := c.stagePapers(ctx, q); err != nil {
		return Publication{}, err
	}
	// A number is never used twice, also if its revision was deleted from the database.
	published := c.next.publication(max(c.current.revision, c.found.newest, c.options.Remembered.Revision)+1, true)
	published.PublishedAt = c.at
	previous := c.found.content
	if c.current.withdrawn {
		previous = nil
	}
	event, err := c.event(refreshed(previous, c.next, c.next.exam.Key, published.Revision))
	if err != nil {
		return Publication{}, err
	}
	row := catalogdb.FlipExamParams{
		ExamKey: c.next.exam.Key, Revision: published.Revision, Digest: c.next.digest[:], Document: c.next.document, At: c.at,
		Cluster: c.claim.Cluster, Namespace: c.claim.Namespace, Name: c.claim.Name,
		EventID: event.ID, EventKind: string(event.Kind), EventBody: event.Body,
	}
	if c.next.pin > 0 {
		row.RestoredFrom = &c.next.pin
	}
	if row.PaperIds, row.PaperDigests, row.PaperSealed, row.PaperVerifications, err = c.next.lists(); err != nil {
		return Publication{}, err
	}
	if err := q.FlipExam(ctx, row); err != nil {
		return Publication{}, fmt.Errorf("flip to revision %d: %w", published.Revision, err)
	}
	published.Repaired, err = c.note(ctx, q, published.Revision, drift)
	return published, err
}

// repair restores the published revision, which has the content of next, if its stored form was changed. A new claim moves.
func (c *change) repair(ctx context.Context, q *catalogdb.Queries) (published Publication, err error) {
	published = c.next.publication(c.current.revision, false)
	published.PublishedAt = c.found.publishedAt
	drift, papers, err := c.damage(ctx, q)
	if err != nil {
		return Publication{}, err
	}
	if err := c.stagePapers(ctx, q); err != nil {
		return Publication{}, err
	}
	if !c.found.intact || c.current.digest != c.next.digest {
		published.PublishedAt = c.publishedAt()
		if err := c.mendRevision(ctx, q, published.PublishedAt); err != nil {
			return Publication{}, err
		}
	}
	if published.Repaired, err = c.note(ctx, q, published.Revision, drift); err != nil {
		return Publication{}, err
	}
	if err = c.tell(ctx, q, drift, papers); err != nil || c.current.ownedBy(c.claim) {
		return published, err
	}
	return published, moveClaim(ctx, q, c.next.exam.Key, c.claim)
}

// stagePapers inserts the papers whose stored form was changed. A pin has no papers of its own.
func (c *change) stagePapers(ctx context.Context, q *catalogdb.Queries) error {
	if c.source != nil {
		return c.source.stage(ctx, q)
	}
	pinned, err := inspect(ctx, q, c.next.exam.Key, c.next.pin)
	if err != nil {
		return err
	}
	if pinned.publishedAt.IsZero() { // pruned since it was read
		return &RevisionNotFoundError{ExamKey: c.next.exam.Key, Revision: c.next.pin}
	}
	lost := &DamagedError{ExamKey: c.next.exam.Key, Revision: c.next.pin}
	for i := range c.next.papers {
		if pinned.damaged[c.next.papers[i].Digest] {
			lost.Papers = append(lost.Papers, c.next.papers[i].PaperID)
		}
	}
	if len(lost.Papers) > 0 || !pinned.intact {
		return lost
	}
	return nil
}

func (c *change) mendRevision(ctx context.Context, q *catalogdb.Queries, publishedAt time.Time) error {
	row := catalogdb.MendRevisionParams{
		ExamKey: c.next.exam.Key, Revision: c.current.revision, Digest: c.next.digest[:], Document: c.next.document, At: publishedAt,
	}
	var err error
	if row.PaperIds, row.PaperDigests, row.PaperSealed, row.PaperVerifications, err = c.next.lists(); err != nil {
		return err
	}
	if err := q.MendRevision(ctx, row); err != nil {
		return fmt.Errorf("restore revision %d: %w", c.current.revision, err)
	}
	return nil
}

// publishedAt is the time of the published revision: the time in its row, unless the owner remembers another one.
func (c *change) publishedAt() time.Time {
	remembered := c.options.Remembered
	switch at := c.found.publishedAt; {
	case remembered.Revision == c.current.revision && !remembered.PublishedAt.IsZero() &&
		at.Truncate(time.Second).Compare(remembered.PublishedAt.Truncate(time.Second)) != 0:
		return remembered.PublishedAt
	case at.IsZero():
		return c.at
	default:
		return at
	}
}

// tell writes the event of a repair: the content that was served in between differs, although the revision is the same.
func (c *change) tell(ctx context.Context, q *catalogdb.Queries, drift []Change, papers []string) error {
	data := withPapers(refreshed(c.found.content, c.next, c.next.exam.Key, c.current.revision), papers)
	if len(drift) == 0 || len(data.Changes) == 0 {
		return nil
	}
	event, err := c.event(data)
	if err != nil {
		return err
	}
	err = q.Tell(ctx, catalogdb.TellParams{
		EventID: event.ID, EventKind: string(event.Kind), EventBody: event.Body, ExamKey: c.next.exam.Key,
	})
	if err != nil {
		return fmt.Errorf("write the event of the repair: %w", err)
	}
	return nil
}

func (c *change) event(data webhooks.ContentUpdated) (webhooks.Event, error) {
	data.UpdatedAt = c.at
	return webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, c.at, data)
}

// lists returns the papers in the form of the statements' parameters.
func (c *content) lists() (ids []string, digests [][]byte, sealed []bool, verifications []string, err error) {
	for i := range c.papers {
		paper := &c.papers[i]
		verification, err := Encode(paper.Verification)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		ids, digests = append(ids, paper.PaperID), append(digests, paper.Digest[:])
		sealed, verifications = append(sealed, paper.Sealed), append(verifications, string(verification))
	}
	return ids, digests, sealed, verifications, nil
}
