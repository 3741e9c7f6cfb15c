package catalogtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// Audited is the published revision of an exam, as its rows have it.
type Audited struct {
	// Revision is 0 while nothing is published.
	Revision  int64
	Withdrawn bool
	Digest    catalog.Digest
	Exam      catalog.Exam
}

// AuditError reports that the rows of a published revision do not have the content that its digests identify.
type AuditError struct {
	ExamKey  string
	Revision int64
	Err      error
}

func (e *AuditError) Error() string {
	return fmt.Sprintf("revision %d of exam %s: %v", e.Revision, e.ExamKey, e.Err)
}

// Unwrap returns the reason.
func (e *AuditError) Unwrap() error { return e.Err }

// Audit reads the published revision of an exam with its answers in one snapshot, and compares each stored digest with
// that of the content. It uses no fingerprint. It fails with *AuditError if they differ. An exam that does not exist is
// published as nothing.
func Audit(ctx context.Context, pool *pgxpool.Pool, examKey string) (audited Audited, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		q := catalogdb.New(tx)
		row, err := q.ExamState(ctx, examKey)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Revision == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read exam %s: %w", examKey, err)
		}
		audited.Revision, audited.Withdrawn, audited.Digest = row.Revision, row.Withdrawn, catalog.Digest(row.Digest)
		return audited.read(ctx, q, examKey)
	})
	return audited, err
}

func (a *Audited) read(ctx context.Context, q *catalogdb.Queries, examKey string) error {
	revision, err := q.StoredRevision(ctx, catalogdb.StoredRevisionParams{ExamKey: examKey, Revision: a.Revision})
	if err != nil {
		return fmt.Errorf("read revision %d of exam %s: %w", a.Revision, examKey, err)
	}
	refs, err := q.RevisionPapers(ctx, catalogdb.RevisionPapersParams{ExamKey: examKey, Revision: a.Revision})
	if err != nil {
		return fmt.Errorf("read papers of revision %d of exam %s: %w", a.Revision, examKey, err)
	}
	papers := make([]catalogdb.StoredPaperRow, len(refs))
	for i, ref := range refs {
		papers[i], err = q.StoredPaper(ctx, catalogdb.StoredPaperParams{ExamKey: examKey, Digest: ref.Digest})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read paper %s: %w", ref.PaperID, err)
		}
	}
	if err := a.compare(revision, refs, papers); err != nil {
		return &AuditError{ExamKey: examKey, Revision: a.Revision, Err: err}
	}
	return nil
}

// compare puts the exam together from its rows, and compares its digests with those of the pointer, the revision and the
// papers.
func (a *Audited) compare(
	revision catalogdb.StoredRevisionRow, refs []catalogdb.RevisionPapersRow, papers []catalogdb.StoredPaperRow,
) error {
	if err := json.Unmarshal(revision.Document, &a.Exam); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	scoring, err := catalog.ParseScoring(a.Exam.Scoring)
	if err != nil {
		return err
	}
	unsealed := []string{}
	for i, ref := range refs {
		paper, err := wholePaper(papers[i], scoring)
		if err != nil {
			return fmt.Errorf("paper %s: %w", ref.PaperID, err)
		}
		if ref.Verification != nil {
			if err := json.Unmarshal(ref.Verification, &paper.Verification); err != nil {
				return fmt.Errorf("verification of paper %s: %w", ref.PaperID, err)
			}
		}
		if minutes := cmp.Or(paper.DurationMinutes, a.Exam.DurationMinutes); minutes != int(papers[i].DurationMinutes) {
			return fmt.Errorf("paper %s: %d minutes, its row has %d", ref.PaperID, minutes, papers[i].DurationMinutes)
		}
		if !ref.Sealed {
			unsealed = append(unsealed, ref.PaperID)
		}
		a.Exam.Papers = append(a.Exam.Papers, paper)
	}
	valid, err := catalog.Validate(a.Exam)
	if err != nil {
		return err
	}
	want, err := catalog.Identify(valid)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if want.PaperDigests[ref.PaperID] != catalog.Digest(ref.Digest) {
			return fmt.Errorf("paper %s has digest %s, not %s", ref.PaperID, want.PaperDigests[ref.PaperID], catalog.Digest(ref.Digest))
		}
	}
	if slices.Sort(unsealed); !slices.Equal(want.Unsealed, unsealed) {
		return fmt.Errorf("papers %q have no seal, %q say so", want.Unsealed, unsealed)
	}
	if want.Digest != a.Digest || want.Digest != catalog.Digest(revision.Digest) {
		return fmt.Errorf("digest %s of the content, %x of the revision, %s of the pointer", want.Digest, revision.Digest, a.Digest)
	}
	return nil
}

// wholePaper puts a paper together from its row.
func wholePaper(row catalogdb.StoredPaperRow, scoring catalog.Scoring) (catalog.Paper, error) {
	var (
		key       catalog.AnswerKey
		questions []catalog.StoredQuestion
		metadata  struct {
			DurationMinutes int                `json:"duration_min"`
			Language        string             `json:"language"`
			Marking         *catalog.Marking   `json:"marking"`
			Provenance      catalog.Provenance `json:"provenance"`
		}
	)
	if err := errors.Join(
		json.Unmarshal(row.Metadata, &metadata), json.Unmarshal(row.Questions, &questions), json.Unmarshal(row.AnswerKey, &key),
	); err != nil {
		return catalog.Paper{}, err
	}
	if len(questions) != len(key.Keys) || len(questions) != int(row.QuestionCount) {
		return catalog.Paper{}, fmt.Errorf("%d questions, %d keys, its row says %d", len(questions), len(key.Keys), row.QuestionCount)
	}
	if !reflect.DeepEqual(key.Scoring, scoring) {
		return catalog.Paper{}, fmt.Errorf("scoring %+v, the exam's is %+v", key.Scoring, scoring)
	}
	paper := catalog.Paper{
		ID: row.PaperID, Title: row.Title, Subject: row.Subject, Year: int(row.Year), DurationMinutes: metadata.DurationMinutes,
		Language: metadata.Language, Marking: metadata.Marking, Provenance: metadata.Provenance,
	}
	for i, q := range questions {
		k := key.Keys[i]
		paper.Questions = append(paper.Questions, catalog.Question{
			Section: k.Section, SectionName: k.SectionName, Number: k.Number, Prompt: q.Prompt, Options: q.Options,
			Answer: k.Answer, Explanation: k.Explanation, Page: q.Page, HasVisual: q.HasVisual, Topic: k.Topic,
		})
	}
	return paper, nil
}
