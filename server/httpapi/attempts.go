package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

// The limits of request fields, in characters and questions (docs/spec.md, parts 4 and 8).
const (
	minID, maxID         = 6, 160
	maxLearnerID         = 160
	maxQuestionLimit     = 20
	defaultQuestionLimit = 9
	maxHistoryLimit      = 50
	defaultHistoryLimit  = 10
)

// attemptHandlers have the routes of mock exams.
type attemptHandlers struct{ attempts Attempts }

func (h *attemptHandlers) routes() []endpoint.Route {
	const mocks = examPaths + "{exam_key}/mock-exams/"
	const get, post = fasthttp.MethodGet, fasthttp.MethodPost
	return []endpoint.Route{
		{Method: post, Path: mocks + "open", Operation: "openMockPaper", Needs: endpoint.Body, Handle: h.open},
		{Method: post, Path: mocks + "questions", Operation: "getMockQuestionPage", Needs: endpoint.Body, Handle: h.page},
		{Method: post, Path: mocks + "submit", Operation: "submitMockAttempt", Needs: endpoint.Body, Handle: h.submit},
		{Method: get, Path: mocks + "history", Operation: "listMockAttempts", Needs: endpoint.Time, Handle: h.history},
	}
}

// open starts an attempt and sends its first questions.
func (h *attemptHandlers) open(ctx context.Context, r *endpoint.Request) error {
	page, err := decodeQuestionPage(r)
	if err != nil {
		return err
	}
	opened, err := h.attempts.Open(ctx, r.Identity, attempts.OpenRequest(page))
	if err != nil {
		return err
	}
	r.Raw(appendAttempt(nil, opened))
	return nil
}

// page sends questions and changes nothing.
func (h *attemptHandlers) page(ctx context.Context, r *endpoint.Request) error {
	page, err := decodeQuestionPage(r)
	if err != nil {
		return err
	}
	found, err := h.attempts.Page(ctx, r.Identity, page)
	if err != nil {
		return err
	}
	body := appendQuestions(nil, `{"questions":[`, found.Questions)
	body = append(body, `,"total":`...)
	r.Raw(append(strconv.AppendInt(body, int64(found.Total), 10), '}'))
	return nil
}

// submit ends an attempt and sends its feedback.
func (h *attemptHandlers) submit(ctx context.Context, r *endpoint.Request) error {
	submission, err := decodeSubmission(r)
	if err != nil {
		return err
	}
	result, err := h.attempts.Submit(ctx, r.Identity, submission)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, struct {
		Success  bool              `json:"success"`
		Feedback attempts.Feedback `json:"feedback"`
	}{true, result.Feedback})
}

// history lists the key's attempts on an exam, newest first; with learner_id those of one learner.
func (h *attemptHandlers) history(ctx context.Context, r *endpoint.Request) error {
	wanted := attempts.HistoryRequest{Limit: defaultHistoryLimit}
	var err error
	if wanted.ExamKey, err = r.ExamKey(); err != nil {
		return err
	}
	query := r.Query()
	query.Integer("limit", &wanted.Limit, 1, maxHistoryLimit)
	query.Integer("offset", &wanted.Offset, 0, codec.NoMax)
	query.Opaque("learner_id", &wanted.LearnerID, maxLearnerID)
	if err := query.Check(); err != nil {
		return err
	}
	history, err := h.attempts.History(ctx, r.Identity, wanted)
	if err != nil {
		return err
	}
	return r.Value(fasthttp.StatusOK, history)
}

// decodeQuestionPage reads the body that opening and paging share.
func decodeQuestionPage(r *endpoint.Request) (page attempts.PageRequest, err error) {
	page.Limit = defaultQuestionLimit
	if page.ExamKey, err = r.ExamKey(); err != nil {
		return page, err
	}
	body := r.JSON()
	body.Text("paper_id", &page.PaperID, minID, maxID)
	body.Integer("question_offset", &page.Offset, 0, codec.NoMax)
	body.Integer("question_limit", &page.Limit, 1, maxQuestionLimit)
	body.Opaque("learner_id", &page.LearnerID, 0, maxLearnerID)
	return page, body.Check("paper_id")
}

func decodeSubmission(r *endpoint.Request) (submission attempts.SubmitRequest, err error) {
	if submission.ExamKey, err = r.ExamKey(); err != nil {
		return submission, err
	}
	status := string(attempts.StateSubmitted)
	body := r.JSON()
	body.Text("attempt_id", &submission.AttemptID, minID, maxID)
	body.Pairs("answers", func(key, value string) {
		submission.Answers = append(submission.Answers, attempts.Answer{Key: key, Value: value})
	})
	body.OneOf("status", &status,
		string(attempts.StateSubmitted), string(attempts.StateExpired), string(attempts.StateAbandoned))
	body.Opaque("learner_id", &submission.LearnerID, 0, maxLearnerID)
	submission.Status = attempts.State(status)
	return submission, body.Check("attempt_id", "answers")
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
