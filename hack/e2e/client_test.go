//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The operations, by the specification's names.
const (
	opList     = "listExams"
	opOverview = "getExamOverview"
	opCatalog  = "listMockPapers"
	opOpen     = "openMockPaper"
	opPage     = "getMockQuestionPage"
	opSubmit   = "submitMockAttempt"
	opHistory  = "listMockAttempts"
)

// api is a client that keeps the specification's retry rules and nothing more: GET is retried on 429, 5xx and network
// errors, everything else on 429 and 503 only.
type api struct {
	base, key string
	http      *http.Client
	meter     *meter
	contract  *contract
}

func newAPI(base, key string, contract *contract) *api {
	return &api{base: base, key: key, meter: newMeter(), contract: contract, http: &http.Client{
		Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 256},
	}}
}

// statusError is an answer other than 200.
type statusError struct {
	op     string
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d %s", e.op, e.status, e.body) }

// maxTries bounds how often a request is sent.
const maxTries = 10

// call sends a request until it is answered 200 or may not be sent again, and decodes the answer into result.
func (a *api) call(ctx context.Context, op, method, path string, body, result any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	pause := 50 * time.Millisecond
	for try := 1; ; try++ {
		answer, status, header, err := a.send(ctx, op, method, path, content)
		if err == nil && status == http.StatusOK {
			if raw, ok := result.(*[]byte); ok {
				*raw = answer
				return nil
			}
			return json.Unmarshal(answer, result)
		}
		if err == nil {
			err = &statusError{op, status, string(answer)}
		}
		again := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
			(method == http.MethodGet && (status == 0 || status >= http.StatusInternalServerError))
		if !again || try == maxTries {
			return err
		}
		if seconds, bad := strconv.Atoi(header.Get("Retry-After")); bad == nil {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		if !wait(ctx, pause) {
			return err
		}
		pause *= 2
	}
}

// send sends a request once. status is 0 when no answer came.
func (a *api) send(ctx context.Context, op, method, path string, content []byte) ([]byte, int, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(content))
	if err != nil {
		return nil, 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	if len(content) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	resp, err := a.http.Do(req)
	if err != nil {
		a.meter.record(op, 0, time.Since(began))
		return nil, 0, nil, fmt.Errorf("%s: %w", op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		a.meter.record(op, 0, time.Since(began))
		return nil, 0, nil, fmt.Errorf("%s: %w", op, err)
	}
	a.meter.record(op, resp.StatusCode, time.Since(began))
	a.contract.answer(resp, answer)
	return answer, resp.StatusCode, resp.Header, nil
}

// wait lets time pass; it reports whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mockQuestion is a question as the API serves it.
type mockQuestion struct {
	AnswerID     string            `json:"answer_id"`
	Number       int               `json:"question_number"`
	Prompt       string            `json:"prompt"`
	QuestionText string            `json:"question_text"`
	Options      map[string]string `json:"options"`
	HasVisual    bool              `json:"has_visual"`
}

type openedAttempt struct {
	ID            string         `json:"attempt_id"`
	Paper         string         `json:"paper_id"`
	QuestionCount int            `json:"question_count"`
	Questions     []mockQuestion `json:"questions"`
}

type questionPage struct {
	Questions []mockQuestion `json:"questions"`
	Total     int            `json:"total"`
}

type submitted struct {
	Success  bool `json:"success"`
	Feedback struct {
		Status   string      `json:"status"`
		Score    json.Number `json:"score"`
		RawScore json.Number `json:"raw_score"`
		MaxScore json.Number `json:"max_score"`
	} `json:"feedback"`
}

type attemptSummary struct {
	ID    string      `json:"attempt_id"`
	Paper string      `json:"paper_id"`
	Score json.Number `json:"score"`
	State string      `json:"state"`
}

func exams(exam, rest string) string { return "/exam-prep/" + exam + rest }

func (a *api) open(ctx context.Context, p *paper, learner string, limit int) (opened openedAttempt, err error) {
	err = a.call(ctx, opOpen, http.MethodPost, exams(p.Exam, "/mock-exams/open"),
		map[string]any{"paper_id": p.ID, "question_limit": limit, "learner_id": learner}, &opened)
	return opened, err
}

func (a *api) page(ctx context.Context, p *paper, learner string, offset, limit int) (page questionPage, err error) {
	err = a.call(ctx, opPage, http.MethodPost, exams(p.Exam, "/mock-exams/questions"),
		map[string]any{"paper_id": p.ID, "question_offset": offset, "question_limit": limit, "learner_id": learner}, &page)
	return page, err
}

func (a *api) submit(ctx context.Context, p *paper, learner, attempt string, answers map[string]string) (result submitted, err error) {
	err = a.call(ctx, opSubmit, http.MethodPost, exams(p.Exam, "/mock-exams/submit"),
		map[string]any{"attempt_id": attempt, "answers": answers, "learner_id": learner}, &result)
	return result, err
}

// history reads a learner's whole history on an exam.
func (a *api) history(ctx context.Context, exam, learner string) ([]attemptSummary, error) {
	const pageSize = 50
	var all []attemptSummary
	for {
		var page struct {
			Attempts []attemptSummary `json:"attempts"`
			Total    int              `json:"total"`
		}
		path := fmt.Sprintf("/mock-exams/history?limit=%d&offset=%d&learner_id=%s", pageSize, len(all), learner)
		if err := a.call(ctx, opHistory, http.MethodGet, exams(exam, path), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Attempts...)
		if len(all) >= page.Total || len(page.Attempts) == 0 {
			if len(all) != page.Total {
				return nil, fmt.Errorf("history of %s: %d attempts, total %d", exam, len(all), page.Total)
			}
			return all, nil
		}
	}
}
