package apierror

import (
	"cmp"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/excerpt"
)

// The error codes (docs/spec.md, part 7), besides those of package attempts. The last three are of unreadable requests.
const (
	CodeInvalidJSON         = "invalid_json"
	CodeValidationFailed    = "validation_failed"
	CodeDuplicateAnswerKey  = "duplicate_answer_key"
	CodeUnauthorized        = "unauthorized"
	CodeExamNotFound        = "exam_not_found"
	CodeNotFound            = "not_found"
	CodeMethodNotAllowed    = "method_not_allowed"
	CodePayloadTooLarge     = "payload_too_large"
	CodeUnsupportedMedia    = "unsupported_media_type"
	CodeRateLimited         = "rate_limited"
	CodeInternal            = "internal_error"
	CodeServiceUnavailable  = "service_unavailable"
	CodeForbidden           = "forbidden"
	CodeConflict            = "conflict"
	CodeBadRequest          = "bad_request"
	CodeRequestTimeout      = "request_timeout"
	CodeHeaderFieldTooLarge = "request_header_fields_too_large"
)

// Error is an error response: a status and an Error body.
type Error struct {
	Status int
	Code   string
	Detail string
	Fields []Field

	RetryAfter int    // seconds; 0 sends no Retry-After
	ManagedBy  string // the resource of the cluster that declares what the request wants to change; empty: not sent
	Challenge  string // WWW-Authenticate of a 401 (RFC 9110 §15.5.2); empty: Bearer
	// Page is where a browser is sent by 303, without a body, if the request is a navigation; empty for every other request. Log and
	// metrics have the error as it is.
	Page string
}

// Field names one field of a request, of the body or the query, and what is wrong with it.
type Field struct {
	Name   string `json:"field"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// maxBody bounds an Error body, in bytes: a client that sends much and reads slowly must not make the pod hold more.
const maxBody = 8 << 10

// Body returns the Error body, of at most 8 KiB: texts are shortened and the last errors left out if it would be larger.
// Invalid UTF-8, which only a client's own bytes can have, becomes U+FFFD.
func (e *Error) Body() []byte {
	body := e.encode()
	if len(body) <= maxBody {
		return body
	}
	short := *e
	short.Detail = excerpt.Text(e.Detail)
	short.Fields = make([]Field, len(e.Fields))
	for i, field := range e.Fields {
		short.Fields[i] = Field{Name: excerpt.Text(field.Name), Detail: excerpt.Text(field.Detail)}
	}
	for body = short.encode(); len(body) > maxBody && len(short.Fields) > 0; body = short.encode() {
		short.Fields = short.Fields[:len(short.Fields)/2]
	}
	return body
}

func (e *Error) encode() []byte {
	body, _ := json.Marshal(struct {
		Error     string  `json:"error"`
		Detail    string  `json:"detail,omitempty"`
		Errors    []Field `json:"errors,omitempty"`
		ManagedBy string  `json:"managed_by,omitempty"`
	}{e.Code, e.Detail, e.Fields, e.ManagedBy}, jsontext.AllowInvalidUTF8(true)) // it fails for no string
	return body
}

// Write makes e the response, whatever a handler has written before.
func (e *Error) Write(ctx *fasthttp.RequestCtx) {
	response := &ctx.Response
	response.ResetBody()
	response.SetStatusCode(e.Status)
	response.Header.Del(fasthttp.HeaderETag)
	response.Header.Del(fasthttp.HeaderVary)
	response.Header.Del(fasthttp.HeaderContentEncoding)
	response.Header.SetContentType("application/json")
	response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	if e.Page != "" {
		response.SetStatusCode(fasthttp.StatusSeeOther)
		response.Header.Set(fasthttp.HeaderLocation, e.Page)
		response.Header.Del(fasthttp.HeaderContentType)
		return
	}
	if e.RetryAfter > 0 {
		response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(e.RetryAfter))
	}
	if e.Status == fasthttp.StatusUnauthorized {
		response.Header.SetCanonical([]byte("WWW-Authenticate"), []byte(cmp.Or(e.Challenge, "Bearer")))
	}
	response.SetBodyRaw(e.Body())
}

// New returns an error with what every error has.
func New(status int, code, detail string) *Error {
	return &Error{Status: status, Code: code, Detail: detail}
}

// Invalid returns a 400 that names every wrong field. Its detail repeats the first one.
func Invalid(fields ...Field) *Error {
	return &Error{
		Status: fasthttp.StatusBadRequest, Code: CodeValidationFailed,
		Detail: fields[0].Name + " " + fields[0].Detail, Fields: fields,
	}
}

// BadRequest returns a 400 for a request that is not readable HTTP.
func BadRequest(detail string) *Error {
	return New(fasthttp.StatusBadRequest, CodeBadRequest, detail)
}

// TooLarge returns a 413.
func TooLarge() *Error {
	return New(fasthttp.StatusRequestEntityTooLarge, CodePayloadTooLarge, "The request body is too large.")
}

// NotFound returns a 404.
func NotFound() *Error {
	return New(fasthttp.StatusNotFound, CodeNotFound, "No such resource.")
}

// ExamNotFound returns the 404 of an exam.
func ExamNotFound() *Error {
	return New(fasthttp.StatusNotFound, CodeExamNotFound, "No such exam.")
}

// Internal returns a 500.
func Internal() *Error {
	return New(fasthttp.StatusInternalServerError, CodeInternal, "The request failed on our side.")
}

// Unavailable returns a 503. Its Retry-After is about the time that a restart or a failover takes.
func Unavailable() *Error {
	return &Error{
		Status: fasthttp.StatusServiceUnavailable, Code: CodeServiceUnavailable,
		Detail: "The service cannot answer at the moment; try again.", RetryAfter: 2,
	}
}
