package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"
)

// The error codes of this package (docs/spec.md, part 7); package attempts has its own. The last three stand
// for refusals below the level of a request: HTTP that cannot be read has no other name there.
const (
	codeInvalidJSON         = "invalid_json"
	codeValidationFailed    = "validation_failed"
	codeDuplicateAnswerKey  = "duplicate_answer_key"
	codeUnauthorized        = "unauthorized"
	codeExamNotFound        = "exam_not_found"
	codeNotFound            = "not_found"
	codeMethodNotAllowed    = "method_not_allowed"
	codePayloadTooLarge     = "payload_too_large"
	codeUnsupportedMedia    = "unsupported_media_type"
	codeRateLimited         = "rate_limited"
	codeInternal            = "internal_error"
	codeServiceUnavailable  = "service_unavailable"
	codeForbidden           = "forbidden"
	codeConflict            = "conflict"
	codeBadRequest          = "bad_request"
	codeRequestTimeout      = "request_timeout"
	codeHeaderFieldTooLarge = "request_header_fields_too_large"
)

// apiError is an error response: its status and its Error body (docs/spec.md, part 2).
type apiError struct {
	status int
	code   string
	detail string
	fields []fieldError
	// retryAfter is the Retry-After header in seconds; 0 sends none.
	retryAfter int
	// managedBy is the resource of the cluster that what was to be changed is declared by; sent where it is set.
	managedBy string
	// bySession says that a 401 is about the session cookie: no Bearer token would help.
	bySession bool
}

// fieldError names one field of the request, body or query, and what is wrong with it.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (e *apiError) Error() string { return e.code + ": " + e.detail }

// body is the Error body. Invalid UTF-8, which only a client's own bytes can have, becomes U+FFFD.
func (e *apiError) body() []byte {
	body, _ := json.Marshal(struct {
		Error     string       `json:"error"`
		Detail    string       `json:"detail,omitempty"`
		Errors    []fieldError `json:"errors,omitempty"`
		ManagedBy string       `json:"managed_by,omitempty"`
	}{e.code, e.detail, e.fields, e.managedBy}, jsontext.AllowInvalidUTF8(true)) // it fails for no string
	return body
}

// write makes e the response, whatever a handler had begun.
func (e *apiError) write(ctx *fasthttp.RequestCtx) {
	response := &ctx.Response
	response.ResetBody()
	response.SetStatusCode(e.status)
	response.Header.SetContentTypeBytes(mediaTypeJSON)
	for _, name := range representationHeaders {
		response.Header.DelBytes(name)
	}
	response.Header.SetCanonical(headerCacheControl, cacheNothing)
	if e.retryAfter > 0 {
		response.Header.SetCanonical(headerRetryAfter, strconv.AppendInt(nil, int64(e.retryAfter), 10))
	}
	if e.status == fasthttp.StatusUnauthorized && !e.bySession {
		response.Header.SetCanonical(headerWWWAuthenticate, challengeBearer)
	}
	response.SetBodyRaw(e.body())
}

func invalidJSON(detail string) *apiError {
	return &apiError{status: fasthttp.StatusBadRequest, code: codeInvalidJSON, detail: detail}
}

// validationFailed is a 400 that names every field at fault; its detail repeats the first, for people who read no list.
func validationFailed(fields ...fieldError) *apiError {
	return &apiError{
		status: fasthttp.StatusBadRequest, code: codeValidationFailed,
		detail: fields[0].Field + " " + fields[0].Detail, fields: fields,
	}
}

func unsupportedMedia(detail string) *apiError {
	return &apiError{status: fasthttp.StatusUnsupportedMediaType, code: codeUnsupportedMedia, detail: detail}
}

func badRequest(detail string) *apiError {
	return &apiError{status: fasthttp.StatusBadRequest, code: codeBadRequest, detail: detail}
}

func noSuchResource() *apiError {
	return &apiError{status: fasthttp.StatusNotFound, code: codeNotFound, detail: "No such resource."}
}

// notSignedIn is a 401 that no Bearer token would help.
func notSignedIn(detail string) *apiError {
	return &apiError{status: fasthttp.StatusUnauthorized, code: codeUnauthorized, bySession: true, detail: detail}
}

func examNotFound() *apiError {
	return &apiError{status: fasthttp.StatusNotFound, code: codeExamNotFound, detail: "No such exam."}
}

func internalError() *apiError {
	return &apiError{status: fasthttp.StatusInternalServerError, code: codeInternal, detail: "The request failed on our side."}
}

// unavailableRetrySeconds is the Retry-After of 503: a restart or a fail-over takes about as long.
const unavailableRetrySeconds = 2

func unavailable() *apiError {
	return &apiError{
		status: fasthttp.StatusServiceUnavailable, code: codeServiceUnavailable,
		detail: "The service cannot answer at the moment; try again.", retryAfter: unavailableRetrySeconds,
	}
}
