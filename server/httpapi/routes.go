package httpapi

import (
	"bytes"
	"context"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// access is whom a route admits.
type access int

const (
	// accessKey needs a valid API key.
	accessKey access = iota
	// accessOpen needs none; requests count against the client's address.
	accessOpen
	// accessSession needs a developer's session cookie; requests count against the client's address.
	accessSession
)

// need is what an operation's handler takes beyond the head of its request.
type need int

const (
	// needNothing answers from memory.
	needNothing need = iota
	// needTime waits for a database, and so has a deadline.
	needTime
	// needBody does too, once the request's body was read. Nobody else's body is.
	needBody
)

// A route is one operation (docs/spec.md, part 4), also for developers (docs/spec.md, parts 5 and 6).
type route struct {
	method string
	// path is relative to the host; {exam_key} and its like match one segment.
	path string
	// operation is the operation's name in the specification, in metrics, logs and traces.
	operation string
	access    access
	needs     need
	handle    handler
}

// examPaths is what the paths that read the catalogue begin with.
const examPaths = "/v1/exam-prep/"

// routes is the whole interface. Every GET answers HEAD as well, every path OPTIONS.
func (s *Server) routes() []route {
	const get, post = fasthttp.MethodGet, fasthttp.MethodPost
	return append([]route{
		{get, "/v1/exam-prep/list", "listExams", accessKey, needNothing, s.listExams},
		{get, "/v1/exam-prep/{exam_key}/overview", "getExamOverview", accessKey, needNothing, s.getExamOverview},
		{get, "/v1/exam-prep/{exam_key}/resources", "getExamResources", accessKey, needNothing, s.getExamResources},
		{get, "/v1/exam-prep/{exam_key}/study-path", "getExamStudyPath", accessKey, needNothing, s.getExamStudyPath},
		{get, "/v1/exam-prep/{exam_key}/mock-exams", "listMockPapers", accessKey, needNothing, s.listMockPapers},
		{post, "/v1/exam-prep/{exam_key}/mock-exams/open", "openMockPaper", accessKey, needBody, s.openMockPaper},
		{post, "/v1/exam-prep/{exam_key}/mock-exams/questions", "getMockQuestionPage", accessKey, needBody, s.getMockQuestionPage},
		{post, "/v1/exam-prep/{exam_key}/mock-exams/submit", "submitMockAttempt", accessKey, needBody, s.submitMockAttempt},
		{get, "/v1/exam-prep/{exam_key}/mock-exams/history", "listMockAttempts", accessKey, needTime, s.listMockAttempts},
		{get, openAPIPath, "getOpenAPI", accessOpen, needNothing, s.getReference(openAPIPath)},
		{get, docsPath, "getDocs", accessOpen, needNothing, s.getReference(docsPath)},
		{get, assetsPath + "{asset}", "getDocs", accessOpen, needNothing, s.getReference(assetsPath)},
	}, s.developerRoutes()...)
}

// newRouter matches paths as they were sent: no redirect, no cleaning, so that what is matched is what a proxy in front
// saw. Nothing ever decides by ctx.Path(), which is cleaned.
func (s *Server) newRouter() *router.Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	for _, route := range s.routes() {
		handle := s.wrap(route)
		r.Handle(route.method, route.path, handle)
		if route.method == fasthttp.MethodGet {
			r.Handle(fasthttp.MethodHead, route.path, handle)
		}
	}
	r.NotFound = s.wrapUnknown(notFound)
	r.MethodNotAllowed = s.wrapUnknown(methodNotAllowed)
	r.GlobalOPTIONS = s.wrap(route{method: fasthttp.MethodOptions, operation: "options", access: accessOpen, handle: options})
	return r
}

// wrapUnknown answers what matches no route. Beside the exams a key is asked for first, as everything there does; elsewhere
// there is none to ask for: a signed-in developer's mistake is told as what it is.
func (s *Server) wrapUnknown(answer handler) fasthttp.RequestHandler {
	keyed := s.wrap(route{operation: "unknown", handle: answer})
	open := s.wrap(route{operation: "unknown", access: accessOpen, handle: answer})
	return func(ctx *fasthttp.RequestCtx) {
		if bytes.HasPrefix(ctx.Request.URI().PathOriginal(), []byte(examPaths)) {
			keyed(ctx)
			return
		}
		open(ctx)
	}
}

func notFound(context.Context, *request) error { return noSuchResource() }

// methodNotAllowed and options find the Allow header set by the router.
func methodNotAllowed(context.Context, *request) error {
	return &apiError{status: fasthttp.StatusMethodNotAllowed, code: codeMethodNotAllowed, detail: "This resource does not answer that method; see Allow."}
}

func options(_ context.Context, r *request) error {
	r.http.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}
