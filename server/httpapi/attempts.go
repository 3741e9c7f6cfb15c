package httpapi

import (
	"context"
	"fmt"
	"strconv"

	"examprep.dev/server/attempts"
)

// The limits of request fields, in characters and questions (docs/spec.md, parts 4 and 8).
const (
	minID, maxID         = 6, 160
	maxLearnerID         = 160
	maxQuestionLimit     = 20
	defaultQuestionLimit = 9
)

// openMockPaper starts an attempt and sends its first questions.
func (s *Server) openMockPaper(ctx context.Context, r *request) error {
	page, err := decodeQuestionPage(r)
	if err != nil {
		return err
	}
	opened, err := s.attempts.Open(ctx, r.identity, attempts.OpenRequest(page))
	if err != nil {
		return err
	}
	writeJSON(r.http, appendAttempt(nil, opened))
	return nil
}

// getMockQuestionPage sends questions and changes nothing.
func (s *Server) getMockQuestionPage(ctx context.Context, r *request) error {
	page, err := decodeQuestionPage(r)
	if err != nil {
		return err
	}
	found, err := s.attempts.Page(ctx, r.identity, page)
	if err != nil {
		return err
	}
	body := appendQuestions(nil, `{"questions":[`, found.Questions)
	body = append(body, `,"total":`...)
	writeJSON(r.http, append(strconv.AppendInt(body, int64(found.Total), 10), '}'))
	return nil
}

// submitMockAttempt ends an attempt and sends its feedback.
func (s *Server) submitMockAttempt(ctx context.Context, r *request) error {
	submission, err := decodeSubmission(r)
	if err != nil {
		return err
	}
	result, err := s.attempts.Submit(ctx, r.identity, submission)
	if err != nil {
		return err
	}
	body, err := encode(struct {
		Success  bool              `json:"success"`
		Feedback attempts.Feedback `json:"feedback"`
	}{true, result.Feedback})
	if err != nil {
		return fmt.Errorf("encode feedback: %w", err)
	}
	writeJSON(r.http, body)
	return nil
}

// decodeQuestionPage reads the body that opening and paging share.
func decodeQuestionPage(r *request) (attempts.PageRequest, error) {
	page := attempts.PageRequest{Limit: defaultQuestionLimit}
	var err error
	if page.ExamKey, err = examKey(r); err != nil {
		return page, err
	}
	err = decodeBody(r.http,
		bodyField{"paper_id", true, text(&page.PaperID, minID, maxID)},
		bodyField{"question_offset", false, integer(&page.Offset, 0, unbounded)},
		bodyField{"question_limit", false, integer(&page.Limit, 1, maxQuestionLimit)},
		bodyField{"learner_id", false, text(&page.LearnerID, 0, maxLearnerID)},
	)
	return page, err
}

func decodeSubmission(r *request) (attempts.SubmitRequest, error) {
	var submission attempts.SubmitRequest
	status := string(attempts.StateSubmitted)
	var err error
	if submission.ExamKey, err = examKey(r); err != nil {
		return submission, err
	}
	err = decodeBody(r.http,
		bodyField{"attempt_id", true, text(&submission.AttemptID, minID, maxID)},
		bodyField{"answers", true, answerMap(&submission.Answers)},
		bodyField{"status", false, oneOf(&status,
			string(attempts.StateSubmitted), string(attempts.StateExpired), string(attempts.StateAbandoned))},
		bodyField{"learner_id", false, text(&submission.LearnerID, 0, maxLearnerID)},
	)
	submission.Status = attempts.State(status)
	return submission, err
}

// appendAttempt renders MockAttempt. Questions are finished JSON already, so nothing is encoded twice.
func appendAttempt(dst []byte, opened attempts.Opened) []byte {
	dst = appendText(append(dst, `{"attempt_id":`...), opened.AttemptID)
	dst = appendText(append(dst, `,"paper_id":`...), opened.PaperID)
	dst = strconv.AppendInt(append(dst, `,"question_count":`...), int64(opened.QuestionCount), 10)
	dst = appendText(append(dst, `,"state":`...), string(opened.State))
	dst = appendTime(append(dst, `,"opened_at":`...), opened.OpenedAt)
	if opened.ExpiresAt != nil {
		dst = appendTime(append(dst, `,"expires_at":`...), *opened.ExpiresAt)
	}
	return append(appendQuestions(dst, `,"questions":[`, opened.Questions), '}')
}

func appendQuestions(dst []byte, opening string, questions [][]byte) []byte {
	size := len(dst) + len(opening) + 32 // room for what callers append
	for _, question := range questions {
		size += len(question) + 1
	}
	dst = append(append(make([]byte, 0, size), dst...), opening...)
	for i, question := range questions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, question...)
	}
	return append(dst, ']')
}
