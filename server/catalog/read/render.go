package read

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres/catalogdb"
)

// The response bodies (docs/spec.md, part 2). Optional fields that are absent are left out; the arrays that a
// document exists for are always there, so that a client may loop over them.
type (
	examSummary struct {
		ExamKey         string `json:"exam_key"`
		Name            string `json:"name"`
		Category        string `json:"category,omitempty"`
		Country         string `json:"country,omitempty"`
		DurationMinutes int    `json:"duration_min,omitempty"`
	}
	examOverview struct {
		examSummary
		Sections []catalog.Section `json:"sections,omitempty"`
		Scoring  json.RawMessage   `json:"scoring,omitempty"`
	}
	examResources struct {
		ExamKey              string         `json:"exam_key"`
		OfficialSites        []catalog.Link `json:"official_sites"`
		PastQuestionsSources []catalog.Link `json:"past_questions_sources"`
	}
	examStudyPath struct {
		ExamKey    string            `json:"exam_key"`
		Weeks      int               `json:"study_weeks,omitempty"`
		HoursTotal float64           `json:"study_hours_total,omitempty"`
		Steps      []json.RawMessage `json:"study_path"`
	}
	mockPaperCatalog struct {
		ExamKey     string      `json:"exam_key"`
		TotalPapers int         `json:"total_papers"`
		Years       []paperYear `json:"years"`
	}
	paperYear struct {
		Year   int                `json:"year"`
		Papers []mockPaperSummary `json:"papers"`
	}
	mockQuestion struct {
		AnswerID string `json:"answer_id"`
		// Section is left out if the paper has only one; question numbers can repeat in several.
		Section        int    `json:"section,omitempty"`
		QuestionNumber int    `json:"question_number"`
		Prompt         string `json:"prompt"`
		// QuestionText repeats Prompt, as the specification asks.
		QuestionText string            `json:"question_text"`
		Options      map[string]string `json:"options,omitempty"`
		Page         int               `json:"page,omitempty"`
		HasVisual    bool              `json:"has_visual"`
	}
	mockPaperSummary struct {
		PaperID       string `json:"paper_id"`
		Title         string `json:"title,omitempty"`
		Subject       string `json:"subject,omitempty"`
		Year          int    `json:"year"`
		QuestionCount int    `json:"question_count"`
	}
)

// listedPaper is a paper of CatalogExams.
type listedPaper struct {
	mockPaperSummary

	Digest         catalog.Digest `json:"digest"`
	OtherRevisions bool           `json:"other_revisions"`
}

// render encodes the response bodies of an exam's published revision. It needs no document of a withdrawn exam.
func render(row catalogdb.CatalogExamsRow) (*examView, error) {
	view := &examView{state: catalogdb.CatalogStatesRow{
		ExamKey: row.ExamKey, Revision: row.Revision, Withdrawn: row.Withdrawn, Repairs: row.Repairs,
	}}
	if row.Withdrawn {
		return view, nil
	}
	var exam catalog.Exam
	if err := decodeStored(row.Document, &exam); err != nil {
		return nil, fmt.Errorf("revision %d: %w", row.Revision, err)
	}
	if exam.Key != row.ExamKey {
		return nil, fmt.Errorf("the document of revision %d is of the exam %.200q", row.Revision, exam.Key)
	}
	var papers []listedPaper
	if err := decodeStored(row.Papers, &papers); err != nil {
		return nil, fmt.Errorf("papers of revision %d: %w", row.Revision, err)
	}
	summary := examSummary{exam.Key, exam.Name, exam.Category, exam.Country, exam.DurationMinutes}
	listed, err := catalog.Encode(summary)
	if err != nil {
		return nil, err
	}
	view.entry = ExamEntry{Key: exam.Key, Name: exam.Name, Country: exam.Country, CountryCode: exam.CountryCode, JSON: listed}
	view.papers = make(map[string]paperView, len(papers))
	for _, paper := range papers {
		view.papers[paper.PaperID] = paperView{digest: paper.Digest, otherRevisions: paper.OtherRevisions}
	}
	for target, body := range map[*Document]any{
		&view.overview:  examOverview{summary, exam.Sections, exam.Scoring},
		&view.resources: examResources{exam.Key, orEmpty(exam.Resources.OfficialSites), orEmpty(exam.Resources.PastQuestionsSources)},
		&view.studyPath: examStudyPath{exam.Key, exam.StudyPath.Weeks, exam.StudyPath.HoursTotal, orEmpty(exam.StudyPath.Steps)},
		&view.list:      paperCatalog(exam.Key, papers),
	} {
		if target.JSON, err = catalog.Encode(body); err != nil {
			return nil, err
		}
		target.ETag = ETag(target.JSON)
	}
	return view, nil
}

// orEmpty returns a list that is not nil, which would be null in JSON.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// paperCatalog groups the papers, which are in the order of their years.
func paperCatalog(examKey string, papers []listedPaper) mockPaperCatalog {
	list := mockPaperCatalog{ExamKey: examKey, TotalPapers: len(papers), Years: []paperYear{}}
	for _, paper := range papers {
		if n := len(list.Years); n == 0 || list.Years[n-1].Year != paper.Year {
			list.Years = append(list.Years, paperYear{Year: paper.Year})
		}
		year := &list.Years[len(list.Years)-1]
		year.Papers = append(year.Papers, paper.mockPaperSummary)
	}
	return list
}

// renderQuestions makes the finished MockQuestion objects of a paper.
func renderQuestions(questions []catalog.StoredQuestion) ([][]byte, error) {
	several := slices.ContainsFunc(questions, func(q catalog.StoredQuestion) bool { return q.Section != questions[0].Section })
	rendered := make([][]byte, len(questions))
	for i, q := range questions {
		question := mockQuestion{
			AnswerID: catalog.AnswerID(q.Section, q.Number), QuestionNumber: q.Number, Prompt: q.Prompt, QuestionText: q.Prompt,
			Options: q.Options, Page: q.Page, HasVisual: q.HasVisual,
		}
		if several {
			question.Section = q.Section
		}
		raw, err := catalog.Encode(question)
		if err != nil {
			return nil, err
		}
		rendered[i] = bytes.Clone(raw) // without the encoder's spare capacity: a cache keeps it
	}
	return rendered, nil
}

// ETag returns the strong entity tag of a body: a hash of its bytes (RFC 9110 §8.8.3).
func ETag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
