package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

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
		Sections []Section       `json:"sections,omitempty"`
		Scoring  json.RawMessage `json:"scoring,omitempty"`
	}
	examResources struct {
		ExamKey              string `json:"exam_key"`
		OfficialSites        []Link `json:"official_sites"`
		PastQuestionsSources []Link `json:"past_questions_sources"`
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
		// Section stands only where the paper has several: question numbers may repeat then.
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

// render turns an exam's published revision into what is sent.
func render(row catalogdb.CatalogExamsRow, papers []catalogdb.CatalogPapersRow) (*examView, error) {
	var exam Exam
	if row.Document == nil {
		return nil, fmt.Errorf("the row of revision %d is missing", row.Revision)
	}
	if err := json.Unmarshal(row.Document, &exam); err != nil {
		return nil, err
	}
	if exam.Key != row.ExamKey {
		return nil, fmt.Errorf("the document of revision %d is of the exam %.200q", row.Revision, exam.Key)
	}
	summary := examSummary{exam.Key, exam.Name, exam.Category, exam.Country, exam.DurationMinutes}
	listed, err := encode(summary)
	if err != nil {
		return nil, err
	}
	view := &examView{
		state: examState{revision: row.Revision, repairs: row.Repairs},
		entry: ExamEntry{
			Key: exam.Key, Name: exam.Name, Country: exam.Country, CountryCode: exam.CountryCode, JSON: listed,
		},
		papers: make(map[string]paperView, len(papers)),
	}
	for _, paper := range papers {
		view.papers[paper.PaperID] = paperView{digest: Digest(paper.Digest), republished: paper.Republished}
	}
	for _, part := range []struct {
		target *Document
		body   any
	}{
		{&view.overview, examOverview{summary, exam.Sections, exam.Scoring}},
		{&view.resources, examResources{
			exam.Key, orEmpty(exam.Resources.OfficialSites), orEmpty(exam.Resources.PastQuestionsSources),
		}},
		{&view.studyPath, examStudyPath{exam.Key, exam.StudyPath.Weeks, exam.StudyPath.HoursTotal, orEmpty(exam.StudyPath.Steps)}},
		{&view.list, paperCatalog(exam.Key, papers)},
	} {
		if *part.target, err = newDocument(part.body); err != nil {
			return nil, err
		}
	}
	return view, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// paperCatalog groups papers by year, newest first; within a year they stand by ID.
func paperCatalog(examKey string, rows []catalogdb.CatalogPapersRow) mockPaperCatalog {
	catalog := mockPaperCatalog{ExamKey: examKey, TotalPapers: len(rows), Years: []paperYear{}}
	rows = slices.SortedFunc(slices.Values(rows), func(a, b catalogdb.CatalogPapersRow) int {
		return cmp.Or(cmp.Compare(b.Year, a.Year), cmp.Compare(a.PaperID, b.PaperID))
	})
	for _, row := range rows {
		if n := len(catalog.Years); n == 0 || catalog.Years[n-1].Year != int(row.Year) {
			catalog.Years = append(catalog.Years, paperYear{Year: int(row.Year)})
		}
		year := &catalog.Years[len(catalog.Years)-1]
		year.Papers = append(year.Papers, mockPaperSummary{
			PaperID: row.PaperID, Title: row.Title, Subject: row.Subject, Year: int(row.Year), QuestionCount: int(row.QuestionCount),
		})
	}
	return catalog
}

// renderQuestions makes the finished MockQuestion objects of a paper.
func renderQuestions(questions []storedQuestion) ([][]byte, error) {
	several := slices.ContainsFunc(questions, func(q storedQuestion) bool { return q.Section != questions[0].Section })
	rendered := make([][]byte, len(questions))
	for i, q := range questions {
		question := mockQuestion{
			AnswerID: AnswerID(q.Section, q.Number), QuestionNumber: q.Number, Prompt: q.Prompt, QuestionText: q.Prompt,
			Options: q.Options, Page: q.Page, HasVisual: q.HasVisual,
		}
		if several {
			question.Section = q.Section
		}
		raw, err := encode(question)
		if err != nil {
			return nil, err
		}
		rendered[i] = bytes.Clone(raw) // without the encoder's spare capacity: it is kept for long
	}
	return rendered, nil
}

// ETag returns the strong entity tag of a body: a hash of its bytes (RFC 9110 §8.8.3).
func ETag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// newDocument encodes a body.
func newDocument(body any) (Document, error) {
	raw, err := encode(body)
	if err != nil {
		return Document{}, err
	}
	return Document{JSON: raw, ETag: ETag(raw)}, nil
}
