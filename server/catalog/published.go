package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
)

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// stored is the present form of a published revision in PostgreSQL, intact or damaged.
type stored struct {
	// content is the readable content; nil without any.
	content *content
	// newest is the exam's newest revision. It is above the published one if the pointer was moved by hand.
	newest int64
	// digest, publishedAt and intact come from the revision's own rows; intact is false for missing rows.
	digest      Digest
	publishedAt time.Time
	intact      bool
	// damaged are the digests of papers whose stored form was changed.
	damaged map[Digest]bool
}

// inspect reads a stored revision. A damaged revision is not an error.
func inspect(ctx context.Context, q *catalogdb.Queries, examKey string, revision int64) (*stored, error) {
	row, err := q.StoredRevision(ctx, catalogdb.StoredRevisionParams{ExamKey: examKey, Revision: revision})
	if err != nil {
		return nil, fmt.Errorf("read revision %d of exam %s: %w", revision, examKey, err)
	}
	s := &stored{newest: row.Newest, intact: row.Intact, damaged: map[Digest]bool{}}
	copy(s.digest[:], row.Digest)
	if row.CreatedAt != nil {
		s.publishedAt = row.CreatedAt.UTC()
	}
	c := &content{document: row.Document, digest: s.digest}
	if row.Document != nil && json.Unmarshal(row.Document, &c.exam) == nil {
		s.content = c
	}
	if revision == 0 {
		return s, nil
	}
	rows, err := q.RevisionPapers(ctx, catalogdb.RevisionPapersParams{ExamKey: examKey, Revision: revision})
	if err != nil {
		return nil, fmt.Errorf("read papers of revision %d of exam %s: %w", revision, examKey, err)
	}
	for _, row := range rows {
		ref := newPaperRef(row)
		c.papers = append(c.papers, ref)
		if !row.Intact {
			s.damaged[ref.Digest] = true
		}
	}
	return s, nil
}

func newPaperRef(row catalogdb.RevisionPapersRow) paperRef {
	ref := paperRef{PaperID: row.PaperID, Sealed: row.Sealed}
	copy(ref.Digest[:], row.Digest)
	copy(ref.Seal[:], row.SealDigest)
	if row.Title != nil {
		ref.Title = *row.Title
	}
	if row.QuestionCount != nil {
		ref.Questions = int(*row.QuestionCount)
	}
	if row.Verification != nil && json.Unmarshal(row.Verification, &ref.Verification) != nil {
		ref.Verification = &Verification{} // an unreadable value differs from every declared one
	}
	return ref
}

// readable returns the readable content of a published revision; empty without any.
func readable(ctx context.Context, q *catalogdb.Queries, examKey string, revision int64) (*content, error) {
	s, err := inspect(ctx, q, examKey, revision)
	if err != nil || s.content == nil {
		return &content{}, err
	}
	return s.content, nil
}

// loadPaper reads a published paper with its answers; nil if the stored form cannot be read.
func loadPaper(ctx context.Context, q *catalogdb.Queries, examKey string, ref paperRef) (*Paper, error) {
	row, err := q.WholePaper(ctx, catalogdb.WholePaperParams{ExamKey: examKey, Digest: ref.Digest[:]})
	if isNoRows(err) {
		return nil, nil //nolint:nilnil // a deleted paper differs from every other
	}
	if err != nil {
		return nil, fmt.Errorf("read paper %s: %w", ref.PaperID, err)
	}
	paper, err := wholePaper(row)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // an unreadable paper differs from every other
	}
	paper.Verification = ref.Verification
	return paper, nil
}

// refuseUnsealed is the seal gate; call judge first. It returns nil if everything can be published: in production if every paper
// has a trusted seal, in sandbox always.
func (p *Publisher) refuseUnsealed(ctx context.Context, next *draft, current state) (*SealError, error) {
	if p.env != postgres.Production {
		return nil, nil //nolint:nilnil // no refusal, no failure
	}
	var refusal *SealError
	for i := range next.papers {
		ref := &next.papers[i]
		switch {
		case ref.counts():
		case refusal != nil:
			refusal.Others = append(refusal.Others, ref.PaperID)
		default:
			changes, err := p.changesOf(ctx, next.exam.Key, &next.sources[i], current)
			if err != nil {
				return nil, err
			}
			refusal = &SealError{
				ExamKey: next.exam.Key, PaperID: ref.PaperID, Want: ref.Seal, Changes: changes, Untrusted: ref.untrusted,
			}
			if ref.Verification != nil {
				refusal.Have = ref.Verification.Digest
			}
		}
	}
	return refusal, nil
}

// changesOf compares a paper with its served revision.
func (p *Publisher) changesOf(ctx context.Context, examKey string, paper *Paper, current state) ([]Change, error) {
	if current.served() { // the answers of a withdrawn exam are not for the next one who declares its key
		q := catalogdb.New(p.pool)
		published, err := readable(ctx, q, examKey, current.revision)
		if err != nil {
			return nil, err
		}
		for _, ref := range published.papers {
			if ref.PaperID != paper.ID {
				continue
			}
			old, err := loadPaper(ctx, q, examKey, ref)
			if err != nil {
				return nil, err
			}
			return comparePapers(old, paper), nil
		}
	}
	return comparePapers(nil, paper), nil
}

// Diff returns the differences between exam and the published content of its key, question by question. The list is empty if
// publishing would change nothing. An exam that is not published, or withdrawn, differs as a whole. Only papers that differ are
// read.
func (p *Publisher) Diff(ctx context.Context, exam ValidExam) ([]Change, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next, err := prepare(exam)
	if err != nil {
		return nil, fmt.Errorf("prepare exam %s: %w", exam.Key(), err)
	}
	key := exam.Key()
	current, err := p.state(ctx, key)
	if err != nil {
		return nil, err
	}
	if current.serves(next.digest) {
		return nil, nil
	}
	q, published := catalogdb.New(p.pool), &content{}
	if current.revision > 0 && !current.withdrawn {
		if published, err = readable(ctx, q, key, current.revision); err != nil {
			return nil, err
		}
	}
	changes := compareExams(published.exam, next.exam)
	before := make(map[string]paperRef, len(published.papers))
	for _, ref := range published.papers {
		before[ref.PaperID] = ref
	}
	for i := range next.papers {
		ref := &next.papers[i]
		oldRef, existed := before[ref.PaperID]
		if delete(before, ref.PaperID); !existed {
			changes = append(changes, comparePapers(nil, &next.sources[i])...)
			continue
		}
		if oldRef.Seal == ref.Seal && sameJSON(oldRef.Verification, ref.Verification) {
			continue
		}
		old, err := loadPaper(ctx, q, key, oldRef)
		if err != nil {
			return nil, err
		}
		changes = append(changes, comparePapers(old, &next.sources[i])...)
	}
	for _, ref := range published.papers { // in order; before holds those that are gone
		if _, gone := before[ref.PaperID]; gone {
			changes = append(changes, Change{Kind: Removed, PaperID: ref.PaperID, Old: excerpt(ref.Title)})
		}
	}
	return changes, nil
}
