package httpapi

import (
	"bytes"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// An examRouter is a router that finds what lies beneath an exam by itself: nearly all requests are for that, and the
// router makes two strings and a slice of each of their exam keys. What it does not find it leaves to the router, which
// has all routes, and knows 404, 405 and OPTIONS.
type examRouter struct {
	*router.Router
	exams map[examTarget]fasthttp.RequestHandler
}

// examTarget is a method, and what follows the exam's key in a path: "/overview".
type examTarget struct{ method, rest string }

// handle adds a route.
func (r *examRouter) handle(method, path string, handle fasthttp.RequestHandler) {
	r.Handle(method, path, handle)
	if rest, beneath := strings.CutPrefix(path, examPaths+"{exam_key}"); beneath {
		r.exams[examTarget{method, rest}] = handle
	}
}

// Handler answers a request.
func (r *examRouter) Handler(ctx *fasthttp.RequestCtx) {
	if handle := r.find(ctx); handle != nil {
		handle(ctx)
		return
	}
	r.Router.Handler(ctx)
}

// find returns the handler of what lies beneath an exam; nil for everything else.
func (r *examRouter) find(ctx *fasthttp.RequestCtx) fasthttp.RequestHandler {
	_, rest, beneath := cutExamPath(sentPath(ctx))
	if !beneath {
		return nil
	}
	return r.exams[examTarget{string(ctx.Method()), string(rest)}] // the compiler makes no strings for it
}

// sentPath returns a request's path as it was sent. The target is taken apart only where it is more than a path.
func sentPath(ctx *fasthttp.RequestCtx) []byte {
	target := ctx.Request.Header.RequestURI()
	if len(target) < 2 || target[0] != '/' || target[1] == '/' {
		return ctx.URI().PathOriginal()
	}
	for _, c := range target {
		if c <= ' ' || c > '~' || c == '?' || c == '#' || c == ':' {
			return ctx.URI().PathOriginal()
		}
	}
	return target
}

// cutExamPath cuts a path as it was sent into the exam's key, still encoded, and what follows it, if that lies beneath an
// exam.
func cutExamPath(path []byte) (key, rest []byte, beneath bool) {
	key, beneath = bytes.CutPrefix(path, []byte(examPaths))
	end := bytes.IndexByte(key, '/')
	if !beneath || end < 0 {
		return nil, nil, false
	}
	return key[:end], key[end:], true
}
