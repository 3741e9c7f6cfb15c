package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MockQuestion is a question without its answer.
type MockQuestion struct {
	// AnswerID is the key of this question's answer when submitting.
	AnswerID string `json:"answer_id"`
	// Section is 0 in papers with one section.
	Section        int    `json:"section"`
	QuestionNumber int    `json:"question_number"`
	Prompt         string `json:"prompt"`
	// QuestionText equals Prompt.
	QuestionText string `json:"question_text"`
	// Options maps letters to texts; nil for questions that are not multiple choice.
	Options map[string]string `json:"options"`
	Page    int               `json:"page"`
	// HasVisual reports whether the question refers to a figure.
	HasVisual bool `json:"has_visual"`
}

// QuestionRange asks for a page of a paper's questions.
type QuestionRange struct {
	PaperID string `json:"paper_id"`
	// Offset counts from 0; Limit is 1 to 20, and 0 for the service's default of 9.
	Offset int `json:"question_offset,omitempty"`
	Limit  int `json:"question_limit,omitempty"`
	// LearnerID is your own name for the learner, at most 160 characters; the same value everywhere.
	LearnerID string `json:"learner_id,omitempty"`
	// AttemptID is the attempt whose questions are paged, also after its end. Set it if you set no LearnerID. Opening ignores it.
	AttemptID string `json:"attempt_id,omitempty"`
}

// MockAttempt is an opened paper with its first page of questions.
type MockAttempt struct {
	AttemptID     string         `json:"attempt_id"`
	PaperID       string         `json:"paper_id"`
	QuestionCount int            `json:"question_count"`
	Questions     []MockQuestion `json:"questions"`
	State         string         `json:"state"`
	OpenedAt      time.Time      `json:"opened_at"`
	// ExpiresAt is nil when the attempt has no time limit.
	ExpiresAt *time.Time `json:"expires_at"`
}

// MockQuestionPage is one page of a paper.
type MockQuestionPage struct {
	Questions []MockQuestion `json:"questions"`
	Total     int            `json:"total"`
}

// Submission hands an attempt in.
type Submission struct {
	AttemptID string `json:"attempt_id"`
	// Answers maps answer ids to letters; a plain question number is accepted where it is unambiguous.
	Answers map[string]string `json:"answers"`
	// Status is submitted, expired or abandoned; "" means submitted.
	Status    string `json:"status,omitempty"`
	LearnerID string `json:"learner_id,omitempty"`
}

// MockAttemptResult is the result of a submission.
type MockAttemptResult struct {
	Success  bool     `json:"success"`
	Feedback Feedback `json:"feedback"`
}

// Feedback is the feedback for a learner. Score is a percentage from 0 to 100. An abandoned attempt has no score, and neither has a
// paper of which no machine can mark any question.
type Feedback struct {
	Status          string           `json:"status"`
	Late            bool             `json:"late"`
	OvertimeSec     int64            `json:"overtime_sec"`
	Score           float64          `json:"score"`
	RawScore        float64          `json:"raw_score"`
	MaxScore        float64          `json:"max_score"`
	Percentage      float64          `json:"percentage"`
	Passed          *bool            `json:"passed"`
	Scaled          *ScaledScore     `json:"scaled"`
	CorrectCount    int              `json:"correct_count"`
	IncorrectCount  int              `json:"incorrect_count"`
	UnansweredCount int              `json:"unanswered_count"`
	UngradedCount   int              `json:"ungraded_count"`
	StartedAt       time.Time        `json:"started_at"`
	SubmittedAt     time.Time        `json:"submitted_at"`
	DurationSec     int64            `json:"duration_sec"`
	Sections        []SectionResult  `json:"sections"`
	Questions       []QuestionResult `json:"questions"`
	// Raw is the whole JSON object, with fields that are not listed above.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the original in Raw.
func (f *Feedback) UnmarshalJSON(content []byte) error {
	type plain Feedback
	if err := json.Unmarshal(content, (*plain)(f)); err != nil {
		return err
	}
	f.Raw = append(json.RawMessage(nil), content...)
	return nil
}

// ScaledScore is the score on the exam's own scale, by its official conversion.
type ScaledScore struct {
	Value float64 `json:"value"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Label string  `json:"label"`
	Basis string  `json:"basis"`
}

// SectionResult is the score of a section.
type SectionResult struct {
	Name       string  `json:"name"`
	RawScore   float64 `json:"raw_score"`
	MaxScore   float64 `json:"max_score"`
	Percentage float64 `json:"percentage"`
}

// QuestionResult is how one question was answered; pointers are nil where there is nothing to say.
type QuestionResult struct {
	AnswerID       string  `json:"answer_id"`
	QuestionNumber int     `json:"question_number"`
	Submitted      *string `json:"submitted"`
	CorrectAnswer  *string `json:"correct_answer"`
	IsCorrect      *bool   `json:"is_correct"`
	Marks          float64 `json:"marks"`
	MaxMarks       float64 `json:"max_marks"`
	Explanation    *string `json:"explanation"`
	Annulled       bool    `json:"annulled"`
}

// MockAttemptSummary is an attempt in the history. Score and SubmittedAt are nil while there are none.
type MockAttemptSummary struct {
	AttemptID   string     `json:"attempt_id"`
	PaperID     string     `json:"paper_id"`
	Score       *float64   `json:"score"`
	SubmittedAt *time.Time `json:"submitted_at"`
	State       string     `json:"state"`
	OpenedAt    time.Time  `json:"opened_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// History is a page of attempts, newest first.
type History struct {
	Attempts []MockAttemptSummary `json:"attempts"`
	Total    int                  `json:"total"`
}

// HistoryRange asks for a page of attempts: Limit is 1 to 50, 0 for the default of 10. Without a LearnerID all of the
// key's attempts are listed.
type HistoryRange struct {
	Limit, Offset int
	LearnerID     string
}

// OpenMockPaper opens a paper into a timed attempt and returns the first page of questions. It is repeated only after
// 429 and 503: another failure may have opened the attempt.
func (c *Client) OpenMockPaper(ctx context.Context, examKey string, r QuestionRange) (answer MockAttempt, err error) {
	err = c.do(ctx, mockExams(examKey, "open", r), &answer)
	return answer, err
}

// MockQuestionPage returns a page of a paper's questions.
func (c *Client) MockQuestionPage(ctx context.Context, examKey string, r QuestionRange) (answer MockQuestionPage, err error) {
	operation := mockExams(examKey, "questions", r)
	operation.repeatable = true // it changes nothing
	err = c.do(ctx, operation, &answer)
	return answer, err
}

// SubmitMockAttempt hands an attempt in and returns its feedback. It is repeated only after 429 and 503: after another
// failure the submission may be recorded already, and MockAttempts tells.
func (c *Client) SubmitMockAttempt(ctx context.Context, examKey string, s Submission) (answer MockAttemptResult, err error) {
	if s.Answers == nil {
		s.Answers = map[string]string{} // the field is required; an empty sheet is legal
	}
	err = c.do(ctx, mockExams(examKey, "submit", s), &answer)
	return answer, err
}

// MockAttempts lists the key's attempts at an exam, newest first.
func (c *Client) MockAttempts(ctx context.Context, examKey string, r HistoryRange) (answer History, err error) {
	query := make(url.Values)
	if r.Limit != 0 {
		query.Set("limit", strconv.Itoa(r.Limit))
	}
	if r.Offset != 0 {
		query.Set("offset", strconv.Itoa(r.Offset))
	}
	if r.LearnerID != "" {
		query.Set("learner_id", r.LearnerID)
	}
	operation := call{method: http.MethodGet, path: []string{"exam-prep", examKey, "mock-exams", "history"}, query: query}
	err = c.do(ctx, operation, &answer)
	return answer, err
}

func mockExams(examKey, action string, body any) call {
	return call{method: http.MethodPost, path: []string{"exam-prep", examKey, "mock-exams", action}, body: body}
}
