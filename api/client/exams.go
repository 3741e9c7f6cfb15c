package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// ExamSummary is an exam in the list. Zero values stand for what the service left out.
type ExamSummary struct {
	ExamKey     string `json:"exam_key"`
	Name        string `json:"name"`
	Category    string `json:"category"`
	Country     string `json:"country"`
	DurationMin int    `json:"duration_min"`
}

// ExamSection is a part of an exam.
type ExamSection struct {
	Name          string   `json:"name"`
	DurationMin   int      `json:"duration_min"`
	Questions     int      `json:"questions"`
	QuestionTypes []string `json:"question_types"`
	Skills        []string `json:"skills"`
}

// ExamOverview is an exam's specification.
type ExamOverview struct {
	ExamSummary

	Sections []ExamSection `json:"sections"`
	// Scoring is free-form: its shape varies by exam.
	Scoring json.RawMessage `json:"scoring"`
}

// ResourceLink is a page about an exam.
type ResourceLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// ExamResources are an exam's verified links.
type ExamResources struct {
	ExamKey              string         `json:"exam_key"`
	OfficialSites        []ResourceLink `json:"official_sites"`
	PastQuestionsSources []ResourceLink `json:"past_questions_sources"`
}

// ExamStudyPath is a suggested plan, week by week.
type ExamStudyPath struct {
	ExamKey         string  `json:"exam_key"`
	StudyWeeks      int     `json:"study_weeks"`
	StudyHoursTotal float64 `json:"study_hours_total"`
	// StudyPath has one free-form object a step.
	StudyPath []json.RawMessage `json:"study_path"`
}

// MockPaperSummary is a paper in the catalogue.
type MockPaperSummary struct {
	PaperID       string `json:"paper_id"`
	Title         string `json:"title"`
	Subject       string `json:"subject"`
	Year          int    `json:"year"`
	QuestionCount int    `json:"question_count"`
}

// MockPaperYear holds the papers of a year.
type MockPaperYear struct {
	Year   int                `json:"year"`
	Papers []MockPaperSummary `json:"papers"`
}

// MockPaperCatalog holds an exam's past papers, by year.
type MockPaperCatalog struct {
	ExamKey     string          `json:"exam_key"`
	TotalPapers int             `json:"total_papers"`
	Years       []MockPaperYear `json:"years"`
}

// ListExams lists the exams. country (a full name) and countryCode (ISO 3166-1 alpha-2) put locally relevant exams
// first; "" for no preference.
func (c *Client) ListExams(ctx context.Context, country, countryCode string) ([]ExamSummary, error) {
	query := make(url.Values)
	if country != "" {
		query.Set("country", country)
	}
	if countryCode != "" {
		query.Set("country_code", countryCode)
	}
	var answer struct {
		Exams []ExamSummary `json:"exams"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"exam-prep", "list"}, query: query}, &answer)
	return answer.Exams, err
}

// ExamOverview returns an exam's specification.
func (c *Client) ExamOverview(ctx context.Context, examKey string) (ExamOverview, error) {
	return read[ExamOverview](ctx, c, examKey, "overview")
}

// ExamResources returns an exam's verified links.
func (c *Client) ExamResources(ctx context.Context, examKey string) (ExamResources, error) {
	return read[ExamResources](ctx, c, examKey, "resources")
}

// ExamStudyPath returns an exam's study path.
func (c *Client) ExamStudyPath(ctx context.Context, examKey string) (ExamStudyPath, error) {
	return read[ExamStudyPath](ctx, c, examKey, "study-path")
}

// MockPapers returns an exam's catalogue of past papers.
func (c *Client) MockPapers(ctx context.Context, examKey string) (MockPaperCatalog, error) {
	return read[MockPaperCatalog](ctx, c, examKey, "mock-exams")
}

func read[T any](ctx context.Context, c *Client, examKey, what string) (answer T, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: []string{"exam-prep", examKey, what}}, &answer)
	return answer, err
}
