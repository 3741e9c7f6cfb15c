package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// newRouter matches paths as they were sent, without redirects and cleaning: a proxy saw the same path. Nothing decides by
// ctx.Path(), which is cleaned.
func (s *Server) newRouter(routes []endpoint.Route) *router.Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	for _, route := range routes {
		handle := s.wrap(route)
		r.Handle(route.Method, route.Path, handle)
		if route.Method == fasthttp.MethodGet {
			r.Handle(fasthttp.MethodHead, route.Path, handle)
		}
	}
	r.NotFound = s.wrapUnknown(notFound)
	r.MethodNotAllowed = s.wrapUnknown(func(context.Context, *endpoint.Request) error { // the router has set Allow
		return apierror.New(fasthttp.StatusMethodNotAllowed, apierror.CodeMethodNotAllowed, "Method not allowed. See the Allow header.")
	})
	r.GlobalOPTIONS = s.wrap(endpoint.Route{
		Method: fasthttp.MethodOptions, Operation: "options", Access: endpoint.Open,
		Handle: func(_ context.Context, r *endpoint.Request) error { return r.NoContent(nil) },
	})
	return r
}

// wrapUnknown answers paths and methods that match no route. Below the exams' paths a key is required first, as for all
// operations there.
func (s *Server) wrapUnknown(answer endpoint.Handler) fasthttp.RequestHandler {
	keyed := s.wrap(endpoint.Route{Operation: "unknown", Handle: answer})
	open := s.wrap(endpoint.Route{Operation: "unknown", Access: endpoint.Open, Handle: answer})
	return func(ctx *fasthttp.RequestCtx) {
		if bytes.HasPrefix(ctx.Request.URI().PathOriginal(), []byte(examPaths)) {
			keyed(ctx)
			return
		}
		open(ctx)
	}
}

func notFound(context.Context, *endpoint.Request) error { return apierror.NotFound() }

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
		return apierror.New(fasthttp.StatusRequestHeaderFieldsTooLarge, apierror.CodeHeaderFieldTooLarge,
			"Request line and headers are too large.")
	case errors.As(err, &network) && network.Timeout():
		return apierror.New(fasthttp.StatusRequestTimeout, apierror.CodeRequestTimeout, "The request did not arrive in time.")
	case errors.Is(err, errNoBodyMemory):
		return apierror.Unavailable()
	case errors.Is(err, errBodyCut), errors.Is(err, io.ErrUnexpectedEOF):
		return apierror.BadRequest("The connection closed before the request was complete.")
	default:
		return apierror.BadRequest("The request is not readable HTTP.")
	}
}
