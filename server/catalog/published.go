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

// stored is what is there of a published revision, be it as it was written or not.
type stored struct {
	// content is what can be read of it; nil when nothing can.
	content *content
	// newest is the exam's newest revision; more than the published one when somebody moved the pointer.
	newest int64
	// digest, publishedAt and intact are of the revision's own rows; intact is false for rows that are not there.
	digest      Digest
	publishedAt time.Time
	intact      bool
	// damaged are the digests of papers that are not what was written.
	damaged map[Digest]bool
}

// inspect reads a revision as it is stored. What somebody made of it is no error.
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
		ref.Verification = &Verification{} // whatever it is, it differs from what is declared
	}
	return ref
}

// readable is what can be read of a published revision; empty when nothing can.
func readable(ctx context.Context, q *catalogdb.Queries, examKey string, revision int64) (*content, error) {
	s, err := inspect(ctx, q, examKey, revision)
	if err != nil || s.content == nil {
		return &content{}, err
	}
	return s.content, nil
}

// loadPaper reads a published paper with its answers; nil when what is stored cannot be read.
func loadPaper(ctx context.Context, q *catalogdb.Queries, examKey string, ref paperRef) (*Paper, error) {
	row, err := q.WholePaper(ctx, catalogdb.WholePaperParams{ExamKey: examKey, Digest: ref.Digest[:]})
	if isNoRows(err) {
		return nil, nil //nolint:nilnil // somebody removed it: it differs from any other
	}
	if err != nil {
		return nil, fmt.Errorf("read paper %s: %w", ref.PaperID, err)
	}
	paper, err := wholePaper(row)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // somebody changed it: it differs from any other
	}
	paper.Verification = ref.Verification
	return paper, nil
}

// refuseUnsealed is the seal gate, over papers that judge has seen. It returns nil where everything may be published: in
// production where every paper has a seal that counts, in sandbox always.
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

// Diff tells how exam differs from what is published under its key, question by question; the list is empty when
// publishing would change nothing. An exam that is not published, or withdrawn, differs as a whole. Only papers that
// differ are read.
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
