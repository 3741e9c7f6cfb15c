package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"examprep.dev/server/postgres/catalogdb"
)

// errUndecodable is in the chain of each error about a stored document that differs from what Publisher writes.
var errUndecodable = errors.New("the stored document cannot be decoded")

// openedCacheBytes bounds what a pod remembers of opened revisions: some 60,000 of them. An evicted one is marked again.
const openedCacheBytes = 8 << 20

// loadPaper reads the questions of a revision. It touches no table that holds an answer.
func (s *Snapshot) loadPaper(ctx context.Context, id revisionID) (sized[*PaperRevision], error) {
	row, err := catalogdb.New(s.pool).PaperRevision(ctx, catalogdb.PaperRevisionParams{
		ExamKey: id.examKey, Digest: id.digest[:],
	})
	if err != nil {
		return sized[*PaperRevision]{}, err
	}
	var questions []storedQuestion
	if err := decodeStored(row.Questions, &questions); err != nil {
		return sized[*PaperRevision]{}, err
	}
	if err := checkCount(len(questions), row.QuestionCount); err != nil {
		return sized[*PaperRevision]{}, err
	}
	paper := &PaperRevision{
		ExamKey: id.examKey, Digest: id.digest, PaperID: row.PaperID, DurationMinutes: int(row.DurationMinutes),
	}
	if paper.Questions, err = renderQuestions(questions); err != nil {
		return sized[*PaperRevision]{}, fmt.Errorf("%w: render: %w", errUndecodable, err)
	}
	const header = 24 // of a slice
	size := 256
	for _, question := range paper.Questions {
		size += cap(question) + header
	}
	return sized[*PaperRevision]{paper, size}, nil
}

func (s *Snapshot) loadAnswerKey(ctx context.Context, id revisionID) (sized[*AnswerKey], error) {
	row, err := catalogdb.New(s.pool).PaperAnswerKey(ctx, catalogdb.PaperAnswerKeyParams{
		ExamKey: id.examKey, Digest: id.digest[:],
	})
	if err != nil {
		return sized[*AnswerKey]{}, err
	}
	key := &AnswerKey{ExamKey: id.examKey, Digest: id.digest}
	if err := decodeStored(row.AnswerKey, key); err != nil {
		return sized[*AnswerKey]{}, err
	}
	if err := checkCount(len(key.Keys), row.QuestionCount); err != nil {
		return sized[*AnswerKey]{}, err
	}
	const structBytes = 320 // of a QuestionKey and the strings it points to
	return sized[*AnswerKey]{key, len(row.AnswerKey) + structBytes*len(key.Keys)}, nil
}

// decodeStored decodes a document; nil is one whose row is missing.
func decodeStored(raw []byte, target any) error {
	if raw == nil {
		return fmt.Errorf("%w: its row is missing", errUndecodable)
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return fmt.Errorf("%w: %w", errUndecodable, err)
	}
	return nil
}

func checkCount(questions int, want int32) error {
	if questions != int(want) {
		return fmt.Errorf("%w: it has %d questions, and its paper has %d", errUndecodable, questions, want)
	}
	return nil
}

// MarkOpened keeps a paper's revision from being pruned, for the attempts that open it: call it before each of them. A pod
// writes once for a revision and remembers it. It fails with *UnavailableError also if the revision was pruned: this pod's
// catalogue is out of date then.
func (s *Snapshot) MarkOpened(ctx context.Context, examKey string, digest Digest) error {
	_, err := s.opened.get(ctx, s.revision(examKey, digest))
	if _, pruned := errors.AsType[*NotFoundError](err); pruned {
		s.stale.addAll()
		return &UnavailableError{Err: fmt.Errorf("revision %s was pruned; this pod has not read its successor yet", digest)}
	}
	return err
}

// storeOpened marks a revision as opened. Pruning locks the same row, so it comes before this or does not delete the row.
func (s *Snapshot) storeOpened(ctx context.Context, id revisionID) (sized[struct{}], error) {
	_, err := catalogdb.New(s.pool).MarkOpened(ctx, catalogdb.MarkOpenedParams{ExamKey: id.examKey, Digest: id.digest[:]})
	const entryBytes = 128 // key and bookkeeping
	return sized[struct{}]{bytes: entryBytes}, err
}
