package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"examprep.dev/server/testkit/check"
)

// service answers requests with one status after the other; the last one stays. 0 ends the connection without an answer; silent never answers.
type service struct {
	statuses []int
	calls    []time.Time
}

const silent = -1

// RoundTrip sends a request to the service.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls = append(s.calls, time.Now())
	status := s.statuses[min(len(s.calls), len(s.statuses))-1]
	answer := httptest.NewRecorder()
	answer.Header().Set("X-Request-Id", "req-1")
	switch status {
	case 0:
		return nil, io.ErrUnexpectedEOF
	case silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case http.StatusTooManyRequests:
		answer.Header().Set("Retry-After", "7")
	}
	answer.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = answer.WriteString(`{"unknown":[1]}`)
	} else {
		_, _ = answer.WriteString(`{"error":"code","detail":"text","errors":[{"field":"f","detail":"d"}]}`)
	}
	return answer.Result(), nil
}

// waits returns the times between the calls.
func (s *service) waits() (between []time.Duration) {
	for i := range len(s.calls) - 1 {
		between = append(between, s.calls[i+1].Sub(s.calls[i]))
	}
	return between
}

// scripted returns a client of a service. Use it in a bubble.
func scripted(t *testing.T, statuses ...int) (*Client, *service) {
	t.Helper()
	s := &service{statuses: statuses}
	c, err := New("https://api.example.com/v1", "service_x")
	check.NoError(t, err)
	c.http.Transport = s
	return c, s
}

func TestEachCallIsRepeatedOnlyAsTheSpecificationAllows(t *testing.T) {
	t.Parallel()
	operations := map[string]func(context.Context, *Client) error{
		"GET": func(ctx context.Context, c *Client) error { _, err := c.ExamOverview(ctx, "x"); return err },
		"questions": func(ctx context.Context, c *Client) error {
			_, err := c.MockQuestionPage(ctx, "x", QuestionRange{PaperID: "paper-1"})
			return err
		},
		"open": func(ctx context.Context, c *Client) error {
			_, err := c.OpenMockPaper(ctx, "x", QuestionRange{PaperID: "paper-1"})
			return err
		},
		"submit": func(ctx context.Context, c *Client) error {
			_, err := c.SubmitMockAttempt(ctx, "x", Submission{AttemptID: "attempt-1"})
			return err
		},
	}
	for _, c := range []struct {
		operation string
		status    int
		repeated  bool
	}{
		{"GET", 429, true},
		{"GET", 500, true},
		{"GET", 502, true},
		{"GET", 503, true},
		{"GET", 0, true},
		{"GET", 400, false},
		{"GET", 401, false},
		{"GET", 404, false},
		{"GET", 302, false},
		{"questions", 429, true},
		{"questions", 500, true},
		{"questions", 503, true},
		{"questions", 0, true},
		{"questions", 400, false},
		{"questions", 404, false},
		{"submit", 429, true},
		{"submit", 503, true},
		{"submit", 500, false},
		{"submit", 502, false},
		{"submit", 504, false},
		{"submit", 0, false},
		{"submit", 400, false},
		{"open", 429, true},
		{"open", 503, true},
		{"open", 500, false},
		{"open", 0, false},
	} {
		t.Run(c.operation+" "+http.StatusText(c.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, service := scripted(t, c.status, http.StatusOK)
				err := operations[c.operation](t.Context(), client)
				if calls := len(service.calls); c.repeated && (err != nil || calls != 2) {
					t.Errorf("%d calls, %v; want a second one that succeeds", calls, err)
				} else if !c.repeated && (err == nil || calls != 1) {
					t.Errorf("%d calls, %v; want one that fails", calls, err)
				}
			})
		})
	}
}

func TestRetriesEndAndWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, service := scripted(t, http.StatusServiceUnavailable)
		_, err := c.ExamOverview(t.Context(), "x")
		answered, ok := errors.AsType[*Error](err)
		if !ok || answered.Status != http.StatusServiceUnavailable || answered.Code != "code" || answered.Detail != "text" ||
			answered.RequestID != "req-1" || len(answered.Fields) != 1 {
			t.Errorf("got %v", err)
		}
		check.Equal(t, len(service.calls), 1+defaultRetries, "calls")
		for i, d := range service.waits() {
			if full := defaultBackoff << i; d < full/2 || d > full {
				t.Errorf("wait %d: %s, want %s to %s", i, d, full/2, full)
			}
		}
	})
}

func TestTheServiceMayAskForALongerWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, service := scripted(t, http.StatusTooManyRequests, http.StatusOK)
		_, err := c.ExamOverview(t.Context(), "x")
		check.NoError(t, err)
		check.Slices(t, service.waits(), []time.Duration{7 * time.Second}, "waits")
	})
}

func TestAWaitBeyondTheDeadlineIsNotBegun(t *testing.T) {
	t.Parallel()
	for deadline, calls := range map[time.Duration]int{7*time.Second - 1: 1, 8 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			c, service := scripted(t, http.StatusTooManyRequests)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			_, err := c.ExamOverview(ctx, "x")
			if answered, ok := errors.AsType[*Error](err); !ok || answered.RetryAfter != 7*time.Second {
				t.Errorf("got %v, want the 429", err)
			}
			check.Equal(t, len(service.calls), calls, "calls within %s", deadline)
			check.Equal(t, time.Since(start), 7*time.Second*time.Duration(calls-1), "time of the call")
		})
	}
}

// TestATryThatIsNotAnsweredEnds: after 30 seconds the next one begins.
func TestATryThatIsNotAnsweredEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, service := scripted(t, silent, http.StatusOK)
		_, err := c.ExamOverview(t.Context(), "x")
		check.NoError(t, err)
		if waits := service.waits(); len(waits) != 1 || waits[0] < defaultTimeout || waits[0] > defaultTimeout+defaultBackoff {
			t.Errorf("waits %v, want one of %s and a backoff", waits, defaultTimeout)
		}
	})
}

func TestAnErrorHoldsNeitherKeyNorLearner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := scripted(t, 0)
		_, err := c.MockAttempts(t.Context(), "x", HistoryRange{LearnerID: "learner-7"})
		if err == nil {
			t.Fatal("no error")
		}
		for _, private := range []string{"service_x", "learner-7"} {
			if strings.Contains(err.Error(), private) {
				t.Errorf("%q in %q", private, err)
			}
		}
	})
}

func TestAWrongSettingIsRefused(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "api.example.com/v1", "ftp://x/v1", "https://"} {
		if _, err := New(base, "k"); err == nil {
			t.Errorf("%q: accepted", base)
		}
	}
	if _, err := New("https://api.example.com/v1", ""); err == nil {
		t.Error("an empty key: accepted")
	}
}
