package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
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

// dependencyAway reports whether err tells of Postgres or Redis being away, overloaded or too slow: the same request may
// succeed in a moment.
func dependencyAway(err error) bool {
	var catalogue *catalog.UnavailableError
	var connecting *pgconn.ConnectError
	var network net.Error
	var refusal *pgconn.PgError
	switch {
	case errors.As(err, &catalogue), errors.As(err, &connecting), errors.As(err, &network):
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return true // the request's time is over, or the server's
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), pgconn.SafeToRetry(err):
		return true // a connection that broke, or broke before anything was sent on it
	case errors.As(err, &refusal):
		return serverTrouble(refusal.Code)
	default:
		return false
	}
}

// serverTrouble knows the SQLSTATEs of a server that is going, coming or full: connection exceptions, insufficient
// resources, operator intervention (a shutdown, a cancelled statement), a standby that was promoted or demoted meanwhile
// (read-only), and a transaction that lost against another.
func serverTrouble(sqlState string) bool {
	switch sqlState {
	case "25006", "40001", "40P01", "55P03":
		return true
	}
	return strings.HasPrefix(sqlState, "08") || strings.HasPrefix(sqlState, "53") || strings.HasPrefix(sqlState, "57")
}

// ofProtocol is the answer to a request that fasthttp could not read.
func ofProtocol(err error) *apiError {
	var headerTooLarge *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return &apiError{status: fasthttp.StatusRequestEntityTooLarge, code: codePayloadTooLarge, detail: "The request body is too large."}
	case errors.As(err, &headerTooLarge):
		return &apiError{status: fasthttp.StatusRequestHeaderFieldsTooLarge, code: codeHeaderFieldTooLarge, detail: "Request line and headers are too large."}
	case errors.As(err, &network) && network.Timeout():
		return &apiError{status: fasthttp.StatusRequestTimeout, code: codeRequestTimeout, detail: "The request did not arrive in time."}
	default:
		return &apiError{status: fasthttp.StatusBadRequest, code: codeBadRequest, detail: "The request is not readable HTTP."}
	}
}

// newErrorHandler answers what fasthttp could not read, through the same middlewares as everything else.
func (s *Server) newErrorHandler() func(*fasthttp.RequestCtx, error) {
	handle := s.chain(&route{operation: "unreadable", handle: notFound}) // never reached: a refusal stands before it
	return func(ctx *fasthttp.RequestCtx, err error) {
		if c, ok := ctx.Conn().(*conn); ok {
			c.refused.Store(true)
		}
		_ = handle(s.life, &request{http: ctx, refusal: ofProtocol(err)})
		ctx.Response.SkipBody = ctx.IsHead()
	}
}
