package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// defaultRetries follow the first try of a call that may be repeated.
	defaultRetries = 4
	// defaultBackoff is the wait before the first retry; it doubles, up to maxBackoff, each half of it at random.
	defaultBackoff = 500 * time.Millisecond
	maxBackoff     = 30 * time.Second
	// defaultTimeout bounds one try.
	defaultTimeout = 30 * time.Second
	// maxRetryAfter is the longest Retry-After that a call waits for. Then it returns the response's error.
	maxRetryAfter = 5 * time.Minute
	// maxAnswer bounds the answer that is read; the service's are far smaller.
	maxAnswer = 32 << 20
)

// Client calls the service with one API key. It may be used by many goroutines at once.
type Client struct {
	base    string
	key     string
	http    *http.Client
	retries int
	backoff time.Duration
}

// Option changes how a Client works.
type Option func(*Client)

// WithHTTPClient sends by h. Its redirects are not followed: the service never redirects, and a key must not travel on.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithRetries allows so many retries (4 unless given; 0 for none).
func WithRetries(n int) Option { return func(c *Client) { c.retries = n } }

// WithBackoff waits about d before the first retry (500 ms unless given), and twice as long before each further one, at most 30 s.
// New returns an error if d is negative.
func WithBackoff(d time.Duration) Option { return func(c *Client) { c.backoff = d } }

// New returns a client of the service at baseURL, which ends in the version (https://…/v1), that presents apiKey.
func New(baseURL, apiKey string, options ...Option) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, fmt.Errorf("base URL %q is not an http(s) URL", baseURL)
	}
	if apiKey == "" {
		return nil, errors.New("the API key is empty")
	}
	c := &Client{
		base: strings.TrimSuffix(baseURL, "/"), key: apiKey, http: &http.Client{Timeout: defaultTimeout},
		retries: defaultRetries, backoff: defaultBackoff,
	}
	for _, option := range options {
		option(c)
	}
	if c.backoff < 0 {
		return nil, fmt.Errorf("the backoff %s is negative", c.backoff)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// A call is one operation (docs/spec.md, part 4).
type call struct {
	method string
	// path holds the segments after the base URL; each is escaped.
	path  []string
	query url.Values
	// body is sent as JSON; nil for none.
	body any
	// repeatable is set for an operation that changes nothing. A GET is repeatable too.
	repeatable bool
}

// do performs a call by the retry rules (docs/spec.md, part 7) and decodes the response into result.
func (c *Client) do(ctx context.Context, operation call, result any) error {
	var body []byte
	if operation.body != nil {
		var err error
		if body, err = json.Marshal(operation.body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	for attempt := 0; ; attempt++ {
		err := c.once(ctx, operation, body, result)
		if err == nil || attempt >= c.retries || !mayRepeat(operation, err) || ctx.Err() != nil {
			return err
		}
		if wait(ctx, c.delay(attempt, err)) != nil {
			return err
		}
	}
}

// mayRepeat decides by docs/spec.md, part 7. An operation that changes nothing is repeated after 429, 5xx and without a response.
// Others are repeated after 429 and 503 only: after another failure the change can be done already. A response that asks for a wait
// of more than 5 minutes is an error at once.
func mayRepeat(operation call, err error) bool {
	repeatable := operation.repeatable || operation.method == http.MethodGet
	answered, ok := errors.AsType[*Error](err)
	if !ok {
		return repeatable
	}
	if answered.RetryAfter > maxRetryAfter {
		return false
	}
	switch answered.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	default:
		return repeatable && answered.Status >= http.StatusInternalServerError
	}
}

// delay is the exponential backoff, or what the service asks for, whichever is longer.
func (c *Client) delay(attempt int, err error) time.Duration {
	backoff := min(c.backoff, maxBackoff)
	for range attempt {
		backoff = min(2*backoff, maxBackoff)
	}
	backoff = backoff/2 + rand.N(backoff/2+1)
	if answered, ok := errors.AsType[*Error](err); ok {
		return max(backoff, answered.RetryAfter)
	}
	return backoff
}

// wait returns an error at once when ctx would end before d has passed.
func wait(ctx context.Context, d time.Duration) error {
	if deadline, set := ctx.Deadline(); set && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once sends one request.
func (c *Client) once(ctx context.Context, operation call, body []byte, result any) error {
	segments := make([]string, len(operation.path))
	for i, segment := range operation.path {
		segments[i] = url.PathEscape(segment)
	}
	address := c.base + "/" + strings.Join(segments, "/")
	if len(operation.query) > 0 {
		address += "?" + operation.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, operation.method, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", operation.method, strings.Join(operation.path, "/"), errors.Unwrap(err))
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return errorOf(answer, content)
	}
	if err := json.Unmarshal(content, result); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// Error is the error response of the service (docs/spec.md, part 7).
type Error struct {
	// Status is the HTTP status; Code the machine-readable code, empty when the body was not the service's.
	Status int
	Code   string
	Detail string
	// Fields name what is wrong with a request, field by field.
	Fields []FieldError
	// RequestID is the answer's x-request-id: what support asks for.
	RequestID string
	// RetryAfter is how long the service asks to wait; 0 for nothing asked.
	RetryAfter time.Duration
}

// FieldError describes what is wrong with one field of a request.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "the service answered %d", e.Status)
	if e.Code != "" {
		text.WriteString(" " + e.Code)
	}
	if e.Detail != "" {
		text.WriteString(": " + e.Detail)
	}
	for _, field := range e.Fields {
		_, _ = fmt.Fprintf(&text, "; %s: %s", field.Field, field.Detail)
	}
	if e.RequestID != "" {
		text.WriteString(" (request " + e.RequestID + ")")
	}
	return text.String()
}

func errorOf(answer *http.Response, content []byte) *Error {
	failure := &Error{Status: answer.StatusCode, RequestID: answer.Header.Get("X-Request-Id")}
	var body struct {
		Error  string       `json:"error"`
		Detail string       `json:"detail"`
		Errors []FieldError `json:"errors"`
	}
	if json.Unmarshal(content, &body) == nil {
		failure.Code, failure.Detail, failure.Fields = body.Error, body.Detail, body.Errors
	}
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31); err == nil { // in 68 years
		failure.RetryAfter = time.Duration(seconds) * time.Second
	}
	return failure
}
