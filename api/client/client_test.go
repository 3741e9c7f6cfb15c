package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

// scripted answers one status after the other; the last one stays. 0 cuts the connection.
func scripted(t *testing.T, statuses ...int) (c *Client, calls *atomic.Int32, waits *[]time.Duration) {
	t.Helper()
	calls, waits = new(atomic.Int32), new([]time.Duration)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		status := statuses[min(int(calls.Add(1)), len(statuses))-1]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Request-Id", "req-1")
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = io.WriteString(w, `{"error":"code","detail":"text","errors":[{"field":"f","detail":"d"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"unknown":[1]}`)
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL+"/v1", "service_x")
	check.NoError(t, err)
	c.wait = func(_ context.Context, d time.Duration) error { *waits = append(*waits, d); return nil }
	return c, calls, waits
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
			client, calls, _ := scripted(t, c.status, http.StatusOK)
			err := operations[c.operation](t.Context(), client)
			if c.repeated && (err != nil || calls.Load() != 2) {
				t.Errorf("%d calls, %v; want a second one that succeeds", calls.Load(), err)
			}
			if !c.repeated && (err == nil || calls.Load() != 1) {
				t.Errorf("%d calls, %v; want one that fails", calls.Load(), err)
			}
		})
	}
}

func TestRetriesEndAndWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	c, calls, waits := scripted(t, http.StatusServiceUnavailable)
	_, err := c.ExamOverview(t.Context(), "x")
	answered, ok := errors.AsType[*Error](err)
	if !ok || answered.Status != http.StatusServiceUnavailable || answered.Code != "code" || answered.Detail != "text" ||
		answered.RequestID != "req-1" || len(answered.Fields) != 1 {
		t.Errorf("got %v", err)
	}
	if calls.Load() != 1+defaultRetries || len(*waits) != defaultRetries {
		t.Errorf("%d calls, waits %v", calls.Load(), *waits)
	}
	for i, d := range *waits {
		if full := defaultBackoff << i; d < full/2 || d > full {
			t.Errorf("wait %d: %s, want %s to %s", i, d, full/2, full)
		}
	}
}

func TestTheServiceMayAskForALongerWait(t *testing.T) {
	t.Parallel()
	c, _, waits := scripted(t, http.StatusTooManyRequests, http.StatusOK)
	_, err := c.ExamOverview(t.Context(), "x")
	check.NoError(t, err)
	if len(*waits) != 1 || (*waits)[0] != 7*time.Second {
		t.Errorf("waits %v, want 7s", *waits)
	}
}

func TestAWaitBeyondTheDeadlineIsNotBegun(t *testing.T) {
	t.Parallel()
	c, calls, _ := scripted(t, http.StatusTooManyRequests)
	c.wait = wait
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.ExamOverview(ctx, "x")
	if answered, ok := errors.AsType[*Error](err); !ok || answered.RetryAfter != 7*time.Second {
		t.Errorf("got %v, want the 429", err)
	}
	if calls.Load() != 1 || ctx.Err() != nil {
		t.Errorf("%d calls, %v", calls.Load(), ctx.Err())
	}
}

func TestAnErrorHoldsNeitherKeyNorLearner(t *testing.T) {
	t.Parallel()
	c, _, _ := scripted(t, 0)
	_, err := c.MockAttempts(t.Context(), "x", HistoryRange{LearnerID: "learner-7"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, private := range []string{"service_x", "learner-7"} {
		if strings.Contains(err.Error(), private) {
			t.Errorf("%q in %q", private, err)
		}
	}
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
