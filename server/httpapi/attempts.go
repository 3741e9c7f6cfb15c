package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

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
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Success  bool              `json:"success"`
		Feedback attempts.Feedback `json:"feedback"`
	}{true, result.Feedback})
}

// decodeQuestionPage reads the body that opening and paging share.
func decodeQuestionPage(r *request) (page attempts.PageRequest, err error) {
	page.Limit = defaultQuestionLimit
	if page.ExamKey, err = examKey(r); err != nil {
		return page, err
	}
	body := readJSON(&r.http.Request)
	body.text("paper_id", &page.PaperID, minID, maxID)
	body.integer("question_offset", &page.Offset, 0, unbounded)
	body.integer("question_limit", &page.Limit, 1, maxQuestionLimit)
	body.text("learner_id", &page.LearnerID, 0, maxLearnerID)
	return page, body.check("paper_id")
}

func decodeSubmission(r *request) (submission attempts.SubmitRequest, err error) {
	if submission.ExamKey, err = examKey(r); err != nil {
		return submission, err
	}
	status := string(attempts.StateSubmitted)
	body := readJSON(&r.http.Request)
	body.text("attempt_id", &submission.AttemptID, minID, maxID)
	body.pairs("answers", func(key, value string) {
		submission.Answers = append(submission.Answers, attempts.Answer{Key: key, Value: value})
	})
	body.oneOf("status", &status,
		string(attempts.StateSubmitted), string(attempts.StateExpired), string(attempts.StateAbandoned))
	body.text("learner_id", &submission.LearnerID, 0, maxLearnerID)
	submission.Status = attempts.State(status)
	return submission, body.check("attempt_id", "answers")
}

// appendText appends s, which is valid UTF-8, as a JSON string.
func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// appendTime writes a date-time as encoding/json does: RFC 3339 with as many digits as there are.
func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
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
