package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/catalogdb"
)

// Audited is what an exam is published as, by its own digests.
type Audited struct {
	// Revision is 0 while nothing is published.
	Revision  int64
	Withdrawn bool
	Digest    Digest
	Exam      Exam
}

// AuditError says that what is published of an exam is not what its digests say.
type AuditError struct {
	ExamKey  string
	Revision int64
	Err      error
}

func (e *AuditError) Error() string {
	return fmt.Sprintf("revision %d of exam %s: %v", e.Revision, e.ExamKey, e.Err)
}

// Unwrap returns what is wrong.
func (e *AuditError) Unwrap() error { return e.Err }

// Audit reads the published revision of an exam, answers included, and recomputes every digest from what is stored, in one
// snapshot of the database. It trusts no fingerprint. It fails with
// *AuditError where a digest is not that of the content; an exam that does
// not exist is published as nothing.
func Audit(ctx context.Context, pool *pgxpool.Pool, examKey string) (audited Audited, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		q := catalogdb.New(tx)
		row, err := q.ExamState(ctx, examKey)
		if isNoRows(err) || err == nil && row.Revision == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read exam %s: %w", examKey, err)
		}
		audited.Revision, audited.Withdrawn = row.Revision, row.Withdrawn
		copy(audited.Digest[:], row.Digest)
		return audited.read(ctx, q, examKey)
	})
	return audited, err
}

func (a *Audited) read(ctx context.Context, q *catalogdb.Queries, examKey string) error {
	found, err := inspect(ctx, q, examKey, a.Revision)
	if err != nil {
		return err
	}
	if found.content == nil {
		return a.fail(examKey, errors.New("it is not there"))
	}
	a.Exam = found.content.exam
	for _, ref := range found.content.papers {
		paper, err := auditPaper(ctx, q, examKey, ref)
		if err != nil {
			return err
		}
		if err := auditedAs(paper, ref); err != nil {
			return a.fail(examKey, fmt.Errorf("paper %s: %w", ref.PaperID, err))
		}
		a.Exam.Papers = append(a.Exam.Papers, *paper.Paper)
	}
	digest, err := examDigest(found.content.exam, found.content.papers)
	if err != nil {
		return err
	}
	if digest != a.Digest || digest != found.digest {
		return a.fail(examKey, fmt.Errorf("digest %s of the content, %s of the revision, %s of the pointer", digest, found.digest, a.Digest))
	}
	return nil
}

func (a *Audited) fail(examKey string, err error) error {
	return &AuditError{ExamKey: examKey, Revision: a.Revision, Err: err}
}

// auditPaper reads a paper; one whose rows do not hold one is empty.
func auditPaper(ctx context.Context, q *catalogdb.Queries, examKey string, ref paperRef) (*auditedPaper, error) {
	row, err := q.StoredPaper(ctx, catalogdb.StoredPaperParams{ExamKey: examKey, Digest: ref.Digest[:]})
	if isNoRows(err) {
		return &auditedPaper{Paper: &Paper{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read paper %s: %w", ref.PaperID, err)
	}
	paper, err := wholePaper(catalogdb.WholePaperRow{
		PaperID: row.PaperID, Title: row.Title, Subject: row.Subject, Year: row.Year,
		Metadata: row.Metadata, Questions: row.Questions, AnswerKey: row.AnswerKey,
	})
	var key AnswerKey
	if err != nil || json.Unmarshal(row.AnswerKey, &key) != nil {
		return &auditedPaper{Paper: &Paper{}}, nil //nolint:nilerr // no digest is that of an empty paper
	}
	paper.Verification = ref.Verification
	return &auditedPaper{paper, int(row.QuestionCount), int(row.DurationMinutes), key.Scoring}, nil
}

// auditedPaper is a stored paper with what its digest covers beside it.
type auditedPaper struct {
	*Paper
	questions, duration int
	scoring             Scoring
}

func auditedAs(paper *auditedPaper, ref paperRef) error {
	seal, err := paper.SealDigest()
	if err != nil {
		return err
	}
	digest, err := paperRevisionDigest(seal, paper.duration, paper.scoring)
	if err != nil {
		return err
	}
	if digest != ref.Digest || ref.PaperID != paper.ID || paper.questions != len(paper.Questions) {
		return fmt.Errorf("%d questions of paper %q have digest %s, not %s", len(paper.Questions), paper.ID, digest, ref.Digest)
	}
	if ref.Sealed != paper.Verification.of(seal) {
		return fmt.Errorf("sealed: %v, its digest is %s", ref.Sealed, seal)
	}
	return nil
}
