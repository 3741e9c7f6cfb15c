package httpapi

import (
	"errors"
	"io"
	"net"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// unreadable answers what fasthttp cannot read, through the same middlewares as all requests.
func (s *Server) unreadable() func(*fasthttp.RequestCtx, error) {
	handle := s.chain(&endpoint.Route{Operation: "unreadable", Handle: notFound}) // authenticate refuses before
	return func(ctx *fasthttp.RequestCtx, err error) {
		wire.LingerOnClose(ctx)
		_ = handle(s.life, &exchange{Request: endpoint.Request{HTTP: ctx}, refusal: fromRead(err)})
		ctx.Response.SkipBody = ctx.IsHead()
	}
}

// fromRead returns the response to a request that could not be read.
func fromRead(err error) *apierror.Error {
	var headerTooLarge *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, wire.ErrTooLong):
		return apierror.TooLarge()
	case errors.As(err, &headerTooLarge):
		return &apierror.Error{
			Status: fasthttp.StatusRequestHeaderFieldsTooLarge, Code: apierror.CodeHeaderFieldTooLarge,
			Detail: "Request line and headers are too large.",
		}
	case errors.As(err, &network) && network.Timeout():
		return &apierror.Error{
			Status: fasthttp.StatusRequestTimeout, Code: apierror.CodeRequestTimeout, Detail: "The request did not arrive in time.",
		}
	case errors.Is(err, errNoBodyMemory):
		return apierror.Unavailable()
	case errors.Is(err, errBodyCut), errors.Is(err, io.ErrUnexpectedEOF):
		return apierror.BadRequest("The request broke off.")
	default:
		return apierror.BadRequest("The request is not readable HTTP.")
	}
}
