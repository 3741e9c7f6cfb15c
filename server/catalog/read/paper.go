package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// PaperRevision is a revision of a paper as requests read it. It contains nothing of the answer key.
type PaperRevision struct {
	ExamKey string
	// Digest identifies the revision: attempts point at it.
	Digest  catalog.Digest
	PaperID string
	// DurationMinutes is the time limit in minutes: the paper's, else the exam's; 0 means no limit.
	DurationMinutes int
	// Questions are the finished JSON objects of MockQuestion, in paper order.
	Questions [][]byte
}

// loadPaper reads the questions of a revision. It reads no table that contains an answer.
func loadPaper(ctx context.Context, q *catalogdb.Queries, id revisionID) (entry sized[*PaperRevision], err error) {
	row, err := q.PaperRevision(ctx, catalogdb.PaperRevisionParams{ExamKey: id.examKey, Digest: id.digest[:]})
	if err != nil {
		return entry, err
	}
	var questions []catalog.StoredQuestion
	if err := decodeStored(row.Questions, &questions); err != nil {
		return entry, err
	}
	paper := &PaperRevision{
		ExamKey: id.examKey, Digest: id.digest, PaperID: row.PaperID, DurationMinutes: int(row.DurationMinutes),
	}
	if paper.Questions, err = renderQuestions(questions); err != nil {
		return entry, fmt.Errorf("%w: render: %w", errUndecodable, err)
	}
	const header = 24 // of a slice
	size := 256
	for _, question := range paper.Questions {
		size += cap(question) + header
	}
	return sized[*PaperRevision]{paper, size}, checkCount(len(questions), row.QuestionCount)
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

// openedCacheBytes is how much a pod remembers of opened revisions: some 60,000 of them. An evicted one is marked again.
const openedCacheBytes = 8 << 20

// MarkOpened keeps a paper's revision from being pruned, for the attempts that open it: call it before each of them. A pod
// writes once for a revision and remembers it. It fails with *catalog.UnavailableError also if the revision was pruned:
// this pod's catalogue is out of date then.
func (s *Snapshot) MarkOpened(ctx context.Context, examKey string, digest catalog.Digest) error {
	_, err := s.opened.Get(ctx, examKey, digest)
	if _, pruned := errors.AsType[*catalog.NotFoundError](err); pruned {
		s.news.add(allExams)
		return &catalog.UnavailableError{Err: fmt.Errorf("revision %s was pruned; this pod has not read its successor yet", digest)}
	}
	return err
}

// storeOpened marks a revision as opened. Pruning locks the same row, so it comes before this or does not delete the row.
func storeOpened(ctx context.Context, q *catalogdb.Queries, id revisionID) (sized[struct{}], error) {
	_, err := q.MarkOpened(ctx, catalogdb.MarkOpenedParams{ExamKey: id.examKey, Digest: id.digest[:]})
	const entryBytes = 128 // key and bookkeeping
	return sized[struct{}]{bytes: entryBytes}, err
}
