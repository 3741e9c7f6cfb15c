package httpapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/attempts/marking"
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

// maxSubmission is the maximum of a submission's body, in bytes: 10,000 answers of 100 bytes.
const maxSubmission = 1 << 20

// usualAnswers is the number of answers for which there is room at first.
const usualAnswers = 128

// attemptHandlers have the routes of mock exams.
type attemptHandlers struct{ attempts Attempts }

func (h *attemptHandlers) routes() []endpoint.Route {
	const mocks = examPaths + "{exam_key}/mock-exams/"
	const get, post = fasthttp.MethodGet, fasthttp.MethodPost
	return []endpoint.Route{
		{Method: post, Path: mocks + "open", Operation: "openMockPaper", Needs: endpoint.Body, Handle: h.open},
		{Method: post, Path: mocks + "questions", Operation: "getMockQuestionPage", Needs: endpoint.Body, Handle: h.page},
		{Method: post, Path: mocks + "submit", Operation: "submitMockAttempt", Needs: endpoint.Body, MaxBody: maxSubmission, Handle: h.submit},
		{Method: get, Path: mocks + "history", Operation: "listMockAttempts", Needs: endpoint.Time, Handle: h.history},
	}
}

func (h *attemptHandlers) open(ctx context.Context, r *endpoint.Request) error {
	wanted, body := decodeRange(r)
	if err := body.Check("paper_id"); err != nil {
		return err
	}
	opened, err := h.attempts.Open(ctx, r.Identity, attempts.OpenRequest{
		ExamKey: wanted.ExamKey, PaperID: wanted.PaperID, Offset: wanted.Offset, Limit: wanted.Limit, LearnerID: wanted.LearnerID,
	})
	if err != nil {
		return err
	}
	head, err := json.Marshal(opened)
	if err != nil {
		return fmt.Errorf("encode the attempt: %w", err)
	}
	head[len(head)-1] = ',' // in place of the brace
	r.Append(func(dst []byte) []byte { return appendQuestions(dst, head, opened.Questions, "}") })
	return nil
}

// page sends questions and changes nothing.
func (h *attemptHandlers) page(ctx context.Context, r *endpoint.Request) error {
	wanted, body := decodeRange(r)
	body.Text("attempt_id", &wanted.AttemptID, minID, maxID)
	if err := body.Check("paper_id"); err != nil {
		return err
	}
	found, err := h.attempts.Page(ctx, r.Identity, wanted)
	if err != nil {
		return err
	}
	r.Append(func(dst []byte) []byte {
		return appendQuestions(dst, []byte{'{'}, found.Questions, fmt.Sprintf(`,"total":%d}`, found.Total))
	})
	return nil
}

func (h *attemptHandlers) submit(ctx context.Context, r *endpoint.Request) error {
	submission := attempts.SubmitRequest{ExamKey: r.ExamKey, Answers: make([]marking.Answer, 0, usualAnswers)}
	body := r.JSON()
	status := string(attempts.StateSubmitted)
	body.Text("attempt_id", &submission.AttemptID, minID, maxID)
	body.Pairs("answers", func(key, value string) {
		submission.Answers = append(submission.Answers, marking.Answer{Key: key, Value: value})
	})
	body.OneOf("status", &status,
		string(attempts.StateSubmitted), string(attempts.StateExpired), string(attempts.StateAbandoned))
	body.Opaque("learner_id", &submission.LearnerID, 0, maxLearnerID)
	submission.Status = attempts.State(status)
	if err := body.Check("attempt_id", "answers"); err != nil {
		return err
	}
	result, err := h.attempts.Submit(ctx, r.Identity, submission)
	if err != nil {
		return err
	}
	r.Append(func(dst []byte) []byte {
		return append(result.Feedback.AppendJSON(append(dst, `{"success":true,"feedback":`...)), '}')
	})
	return nil
}

// history lists the key's attempts on an exam, newest first; with learner_id those of one learner.
func (h *attemptHandlers) history(ctx context.Context, r *endpoint.Request) error {
	wanted, query := attempts.HistoryRequest{ExamKey: r.ExamKey, Limit: defaultHistoryLimit}, r.Query()
	query.Integer("limit", &wanted.Limit, 1, maxHistoryLimit)
	query.Integer("offset", &wanted.Offset, 0, codec.NoMax)
	query.Opaque("learner_id", &wanted.LearnerID, 0, maxLearnerID)
	if err := query.Check(); err != nil {
		return err
	}
	return r.OK(h.attempts.History(ctx, r.Identity, wanted))
}

// decodeRange reads what opening and paging share. The caller checks the body.
func decodeRange(r *endpoint.Request) (attempts.PageRequest, *codec.Fields) {
	wanted, body := attempts.PageRequest{ExamKey: r.ExamKey, Limit: defaultQuestionLimit}, r.JSON()
	body.Text("paper_id", &wanted.PaperID, minID, maxID)
	body.Integer("question_offset", &wanted.Offset, 0, codec.NoMax)
	body.Integer("question_limit", &wanted.Limit, 1, maxQuestionLimit)
	body.Opaque("learner_id", &wanted.LearnerID, 0, maxLearnerID)
	return wanted, body
}

// appendQuestions appends a body with questions between head and tail. They are finished JSON, so nothing is encoded twice.
func appendQuestions(dst, head []byte, questions [][]byte, tail string) []byte {
	const opening, closing = `"questions":[`, "]"
	size := len(head) + len(opening) + len(closing) + len(tail)
	for _, question := range questions {
		size += len(question) + 1
	}
	body := append(append(slices.Grow(dst, size), head...), opening...)
	for i, question := range questions {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, question...)
	}
	return append(append(body, closing...), tail...)
}
