package httpapi

import (
	"bytes"
	"context"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
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
	r.MethodNotAllowed = s.wrapUnknown(methodNotAllowed)
	r.GlobalOPTIONS = s.wrap(endpoint.Route{
		Method: fasthttp.MethodOptions, Operation: "options", Access: endpoint.Open, Handle: options,
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

// methodNotAllowed and options find the Allow header that the router has set.
func methodNotAllowed(context.Context, *endpoint.Request) error {
	return &apierror.Error{
		Status: fasthttp.StatusMethodNotAllowed, Code: apierror.CodeMethodNotAllowed, Detail: "Method not allowed. See the Allow header.",
	}
}

func options(_ context.Context, r *endpoint.Request) error { return r.NoContent(nil) }
