package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
)

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// loadContent reads a revision as it was published.
func loadContent(ctx context.Context, q *catalogdb.Queries, examKey string, revision int64) (*content, error) {
	document, err := q.RevisionDocument(ctx, catalogdb.RevisionDocumentParams{ExamKey: examKey, Revision: revision})
	if err != nil {
		return nil, fmt.Errorf("read revision %d of exam %s: %w", revision, examKey, err)
	}
	c := &content{document: document}
	if err := json.Unmarshal(document, &c.exam); err != nil {
		return nil, fmt.Errorf("revision %d of exam %s: %w", revision, examKey, err)
	}
	rows, err := q.RevisionPapers(ctx, catalogdb.RevisionPapersParams{ExamKey: examKey, Revision: revision})
	if err != nil {
		return nil, fmt.Errorf("read papers of revision %d of exam %s: %w", revision, examKey, err)
	}
	for _, row := range rows {
		paper := paperRef{PaperID: row.PaperID, Title: row.Title, Sealed: row.Sealed}
		copy(paper.Digest[:], row.Digest)
		copy(paper.Seal[:], row.SealDigest)
		if row.Verification != nil {
			if err := json.Unmarshal(row.Verification, &paper.Verification); err != nil {
				return nil, fmt.Errorf("verification of paper %s: %w", row.PaperID, err)
			}
		}
		c.papers = append(c.papers, paper)
	}
	return c, nil
}

// loadPaper reads a published paper with its answers.
func loadPaper(ctx context.Context, q *catalogdb.Queries, examKey string, ref paperRef) (*Paper, error) {
	row, err := q.WholePaper(ctx, catalogdb.WholePaperParams{ExamKey: examKey, Digest: ref.Digest[:]})
	if err != nil {
		return nil, fmt.Errorf("read paper %s: %w", ref.PaperID, err)
	}
	paper, err := wholePaper(row)
	if err != nil {
		return nil, err
	}
	paper.Verification = ref.Verification
	return paper, nil
}

// refuseUnsealed is the seal gate. It returns nil where everything may be published: in production every paper is
// sealed, in sandbox always.
func (p *Publisher) refuseUnsealed(ctx context.Context, next *draft, current state) (*SealError, error) {
	if p.env != postgres.Production {
		return nil, nil //nolint:nilnil // no refusal, no failure
	}
	var refusal *SealError
	for i := range next.papers {
		ref := &next.papers[i]
		switch {
		case ref.Sealed:
		case refusal != nil:
			refusal.Others = append(refusal.Others, ref.PaperID)
		default:
			changes, err := p.changesOf(ctx, next.exam.Key, &next.sources[i], current)
			if err != nil {
				return nil, err
			}
			refusal = &SealError{ExamKey: next.exam.Key, PaperID: ref.PaperID, Want: ref.Seal, Changes: changes}
			if ref.Verification != nil {
				refusal.Have = ref.Verification.Digest
			}
		}
	}
	return refusal, nil
}

// changesOf compares a paper with its published revision.
func (p *Publisher) changesOf(ctx context.Context, examKey string, paper *Paper, current state) ([]Change, error) {
	if current.revision > 0 {
		q := catalogdb.New(p.pool)
		published, err := loadContent(ctx, q, examKey, current.revision)
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
// differ are read. exam need not be valid, as long as it has a canonical form (*ValidationError).
func (p *Publisher) Diff(ctx context.Context, exam Exam) ([]Change, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next, err := prepare(exam)
	if err != nil {
		return nil, fmt.Errorf("prepare exam %s: %w", exam.Key, err)
	}
	current, err := p.state(ctx, exam.Key)
	if err != nil {
		return nil, err
	}
	if current.serves(next.digest) {
		return nil, nil
	}
	q, published := catalogdb.New(p.pool), &content{}
	if current.revision > 0 && !current.withdrawn {
		if published, err = loadContent(ctx, q, exam.Key, current.revision); err != nil {
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
		old, err := loadPaper(ctx, q, exam.Key, oldRef)
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
