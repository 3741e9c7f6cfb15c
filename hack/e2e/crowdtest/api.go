package crowdtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// The operations, by the specification's names.
const (
	OpList     = "listExams"
	OpOverview = "getExamOverview"
	OpCatalog  = "listMockPapers"
	OpOpen     = "openMockPaper"
	OpPage     = "getMockQuestionPage"
	OpSubmit   = "submitMockAttempt"
	OpHistory  = "listMockAttempts"
)

// API is a client that keeps the specification's retry rules and nothing more: GET is retried on 429, 5xx and network
// errors, everything else on 429 and 503 only.
type API struct {
	// Meter counts every request that is sent; it may be replaced between two runs.
	Meter *Meter

	base, key string
	http      *http.Client
	contract  *Contract
	// pace, where it is set, says when the next request may be sent.
	pace *rate.Limiter
}

// NewAPI returns a client of the service at base, which ends in /v1, that holds every answer against the contract.
func NewAPI(base, key string, contract *Contract) *API {
	return &API{base: base, key: key, Meter: NewMeter(), contract: contract, http: &http.Client{
		Timeout: 15 * time.Second, Transport: &http.Transport{
			MaxIdleConnsPerHost: 256, MaxIdleConns: 256,
			// Less than the server's 75 s, as any client's should be: a request that is sent while the server hangs up after
			// those gets no answer.
			IdleConnTimeout: time.Minute,
		},
	}}
}

// Paced returns a client that sends no more than so many requests a second, with connections and a meter of its own.
func (a *API) Paced(perSecond float64) *API {
	paced := NewAPI(a.base, a.key, a.contract)
	paced.pace = rate.NewLimiter(rate.Limit(perSecond), 1)
	return paced
}

// With returns a client of the same service with another key.
func (a *API) With(key string) *API { return NewAPI(a.base, key, a.contract) }

// StatusError is an answer other than 200.
type StatusError struct {
	Op     string
	Status int
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d %s", e.Op, e.Status, e.Body) }

// PageSize is the largest page of questions that the specification allows.
const PageSize = 20

// maxTries bounds how often a request is sent.
const maxTries = 10

// Call sends a request until it is answered 200 or may not be sent again, and decodes the answer into result.
func (a *API) Call(ctx context.Context, op, method, path string, body, result any) error {
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
			err = &StatusError{op, status, string(answer)}
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

func (a *API) send(ctx context.Context, op, method, path string, content []byte) ([]byte, int, http.Header, error) {
	if a.pace != nil {
		if err := a.pace.Wait(ctx); err != nil {
			return nil, 0, nil, err
		}
	}
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
		a.Meter.record(op, 0, time.Since(began), err)
		return nil, 0, nil, fmt.Errorf("%s: %w", op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Meter.record(op, 0, time.Since(began), err)
		return nil, 0, nil, fmt.Errorf("%s: %w", op, err)
	}
	a.Meter.record(op, resp.StatusCode, time.Since(began), refusal(resp.StatusCode, answer))
	a.contract.answer(resp, answer)
	return answer, resp.StatusCode, resp.Header, nil
}

// refusal describes an answer other than 200 by its body.
func refusal(status int, answer []byte) error {
	if status == http.StatusOK {
		return nil
	}
	return errors.New(string(answer[:min(len(answer), 300)]))
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

// ServedQuestion is a question as the API serves it.
type ServedQuestion struct {
	AnswerID     string            `json:"answer_id"`
	Number       int               `json:"question_number"`
	Prompt       string            `json:"prompt"`
	QuestionText string            `json:"question_text"`
	Options      map[string]string `json:"options"`
	HasVisual    bool              `json:"has_visual"`
}

// Opened is an attempt that was opened, with its first page.
type Opened struct {
	ID            string           `json:"attempt_id"`
	Paper         string           `json:"paper_id"`
	QuestionCount int              `json:"question_count"`
	Questions     []ServedQuestion `json:"questions"`
}

// QuestionPage is a page of a paper.
type QuestionPage struct {
	Questions []ServedQuestion `json:"questions"`
	Total     int              `json:"total"`
}

// Submitted is what a submission is answered.
type Submitted struct {
	Success  bool `json:"success"`
	Feedback struct {
		Status   string      `json:"status"`
		Score    json.Number `json:"score"`
		RawScore json.Number `json:"raw_score"`
		MaxScore json.Number `json:"max_score"`
	} `json:"feedback"`
}

// Summary is an attempt as history lists it.
type Summary struct {
	ID    string      `json:"attempt_id"`
	Paper string      `json:"paper_id"`
	Score json.Number `json:"score"`
	State string      `json:"state"`
}

// Path is the path of something of an exam.
func Path(exam, rest string) string { return "/exam-prep/" + exam + rest }

// Open opens a paper.
func (a *API) Open(ctx context.Context, p *Paper, learner string, limit int) (opened Opened, err error) {
	err = a.Call(ctx, OpOpen, http.MethodPost, Path(p.Exam, "/mock-exams/open"),
		map[string]any{"paper_id": p.ID, "question_limit": limit, "learner_id": learner}, &opened)
	return opened, err
}

// Page reads a page of a paper.
func (a *API) Page(ctx context.Context, p *Paper, learner string, offset, limit int) (page QuestionPage, err error) {
	err = a.Call(ctx, OpPage, http.MethodPost, Path(p.Exam, "/mock-exams/questions"),
		map[string]any{"paper_id": p.ID, "question_offset": offset, "question_limit": limit, "learner_id": learner}, &page)
	return page, err
}

// Submit hands an attempt in.
func (a *API) Submit(ctx context.Context, p *Paper, learner, attempt string, answers map[string]string) (result Submitted, err error) {
	err = a.Call(ctx, OpSubmit, http.MethodPost, Path(p.Exam, "/mock-exams/submit"),
		map[string]any{"attempt_id": attempt, "answers": answers, "learner_id": learner}, &result)
	return result, err
}

// History reads a learner's whole history on an exam.
func (a *API) History(ctx context.Context, exam, learner string) ([]Summary, error) {
	const pageSize = 50
	var all []Summary
	for {
		var page struct {
			Attempts []Summary `json:"attempts"`
			Total    int       `json:"total"`
		}
		path := fmt.Sprintf("/mock-exams/history?limit=%d&offset=%d&learner_id=%s", pageSize, len(all), learner)
		if err := a.Call(ctx, OpHistory, http.MethodGet, Path(exam, path), nil, &page); err != nil {
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
