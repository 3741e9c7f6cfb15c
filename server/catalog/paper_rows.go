package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"examprep.dev/server/postgres/catalogdb"
)

// StoredQuestion is a question as its paper's row keeps it. Nothing that tells an answer may ever be added to it: responses
// are rendered from it. Such a field belongs to QuestionKey.
type StoredQuestion struct {
	Section   int               `json:"section"`
	Number    int               `json:"number"`
	Prompt    string            `json:"prompt"`
	Options   map[string]string `json:"options,omitempty"`
	Page      int               `json:"page,omitempty"`
	HasVisual bool              `json:"has_visual,omitempty"`
}

// paperMetadata holds the fields of a paper without a column of their own.
type paperMetadata struct {
	DurationMinutes int        `json:"duration_min,omitempty"`
	Language        string     `json:"language,omitempty"`
	Marking         *Marking   `json:"marking,omitempty"`
	Provenance      Provenance `json:"provenance"`
}

// row encodes the i-th paper of the draft, its questions and its key apart.
func (d *draft) row(i int) (catalogdb.StagePaperParams, error) {
	paper, ref := &d.sources[i], &d.papers[i]
	questions, err := Encode(storedQuestions(paper))
	if err != nil {
		return catalogdb.StagePaperParams{}, err
	}
	key, err := Encode(answerKey(paper, d.scoring))
	if err != nil {
		return catalogdb.StagePaperParams{}, err
	}
	metadata, err := Encode(paperMetadata{paper.DurationMinutes, paper.Language, paper.Marking, paper.Provenance})
	if err != nil {
		return catalogdb.StagePaperParams{}, err
	}
	return catalogdb.StagePaperParams{
		ExamKey: d.exam.Key, Digest: ref.Digest[:], PaperID: paper.ID, SealDigest: ref.Seal[:],
		Title: paper.Title, Subject: paper.Subject,
		Year:            int32(paper.Year),
		DurationMinutes: int32(effectiveDuration(d.exam, paper)),
		QuestionCount:   int32(len(paper.Questions)),
		Metadata:        metadata, Questions: questions, AnswerKey: key,
	}, nil
}

func storedQuestions(paper *Paper) []StoredQuestion {
	questions := make([]StoredQuestion, len(paper.Questions))
	for i := range paper.Questions {
		q := &paper.Questions[i]
		questions[i] = StoredQuestion{q.Section, q.Number, q.Prompt, q.Options, q.Page, q.HasVisual}
	}
	return questions
}

func answerKey(paper *Paper, scoring Scoring) AnswerKey {
	key := AnswerKey{Marking: Marking{Correct: 1}, Scoring: scoring, Keys: make([]QuestionKey, len(paper.Questions))}
	switch {
	case paper.Marking != nil:
		key.Marking = *paper.Marking
	case scoring.Marks != nil:
		key.Marking = *scoring.Marks
	}
	for i := range paper.Questions {
		q := &paper.Questions[i]
		answer := q.Answer
		answer.Choices = slices.Sorted(slices.Values(answer.Choices))
		key.Keys[i] = QuestionKey{
			Section: q.Section, SectionName: q.SectionName, Number: q.Number, Letters: q.letters(),
			Answer: answer, Explanation: q.Explanation, Topic: q.Topic,
		}
	}
	return key
}

// wholePaper puts a paper together again from its rows; its verification belongs to the exam's revision.
func wholePaper(row catalogdb.WholePaperRow) (*Paper, error) {
	var (
		metadata  paperMetadata
		questions []StoredQuestion
		key       AnswerKey
	)
	for _, column := range []struct {
		raw    []byte
		target any
	}{{row.Metadata, &metadata}, {row.Questions, &questions}, {row.AnswerKey, &key}} {
		if err := json.Unmarshal(column.raw, column.target); err != nil {
			return nil, fmt.Errorf("stored paper %s: %w", row.PaperID, err)
		}
	}
	if len(questions) != len(key.Keys) {
		return nil, fmt.Errorf("stored paper %s: %d questions, %d keys", row.PaperID, len(questions), len(key.Keys))
	}
	paper := &Paper{
		ID: row.PaperID, Title: row.Title, Subject: row.Subject, Year: int(row.Year),
		DurationMinutes: metadata.DurationMinutes, Language: metadata.Language, Marking: metadata.Marking,
		Provenance: metadata.Provenance, Questions: make([]Question, len(questions)),
	}
	for i, q := range questions {
		k := key.Keys[i]
		paper.Questions[i] = Question{
			Section: k.Section, SectionName: k.SectionName, Number: k.Number, Prompt: q.Prompt, Options: q.Options,
			Answer: k.Answer, Explanation: k.Explanation, Page: q.Page, HasVisual: q.HasVisual, Topic: k.Topic,
		}
	}
	return paper, nil
}
