package httpapi

import (
	"errors"
	"io"
	"net"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
)

// unavailableRetrySeconds is the Retry-After of 503: a restart or a fail-over takes about as long.
const unavailableRetrySeconds = 2

func internalError() *apiError {
	return &apiError{status: fasthttp.StatusInternalServerError, code: codeInternal, detail: "The request failed on our side."}
}

// classify is the one place where an error becomes an answer.
func classify(err error) *apiError {
	var own *apiError
	var mistake *attempts.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &mistake):
		return ofAttempts(mistake)
	case dependencyAway(err):
		return unavailable()
	default:
		return internalError()
	}
}

// ofAttempts: what does not exist is 404, every other mistake of a client 400.
func ofAttempts(mistake *attempts.Error) *apiError {
	answer := &apiError{status: fasthttp.StatusBadRequest, code: mistake.Code, detail: mistake.Detail}
	switch mistake.Code {
	case attempts.CodeExamNotFound, attempts.CodePaperNotFound, attempts.CodeAttemptNotFound:
		answer.status = fasthttp.StatusNotFound
	}
	for _, field := range mistake.Fields {
		answer.fields = append(answer.fields, fieldError(field))
	}
	return answer
}

// dependencyAway reports whether err tells of a store being away, overloaded or too slow: the same request may succeed in
// a moment.
func dependencyAway(err error) bool {
	var catalogue *catalog.UnavailableError
	var provider *sessions.ProviderError
	return errors.As(err, &catalogue) || errors.As(err, &provider) || postgres.Away(err)
}

// ofProtocol is the answer to a request that fasthttp could not read.
func ofProtocol(err error) *apiError {
	var headerTooLarge *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, errReadEnough):
		return &apiError{status: fasthttp.StatusRequestEntityTooLarge, code: codePayloadTooLarge, detail: "The request body is too large."}
	case errors.As(err, &headerTooLarge):
		return &apiError{status: fasthttp.StatusRequestHeaderFieldsTooLarge, code: codeHeaderFieldTooLarge, detail: "Request line and headers are too large."}
	case errors.As(err, &network) && network.Timeout():
		return &apiError{status: fasthttp.StatusRequestTimeout, code: codeRequestTimeout, detail: "The request did not arrive in time."}
	case errors.Is(err, errNoBodyMemory):
		return unavailable()
	case errors.Is(err, errBodyCut), errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest("The request broke off.")
	default:
		return badRequest("The request is not readable HTTP.")
	}
}

// newErrorHandler answers what fasthttp could not read, through the same middlewares as everything else.
func (s *Server) newErrorHandler() func(*fasthttp.RequestCtx, error) {
	handle := s.chain(&route{operation: "unreadable", handle: notFound}) // never reached: a refusal stands before it
	return func(ctx *fasthttp.RequestCtx, err error) {
		refuseRest(ctx)
		_ = handle(s.life, &request{http: ctx, refusal: ofProtocol(err)})
		ctx.Response.SkipBody = ctx.IsHead()
	}
}
