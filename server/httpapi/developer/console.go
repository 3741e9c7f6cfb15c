package developer

import (
	"context"
	"net/url"
	"sync"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/console"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

// The pages that need no session.
const (
	refusedPage   = console.Path + "refused"
	signedOutPage = console.Path + "signed-out"
)

// consoleHandlers serve the console's document and files. They are loaded with the first request.
type consoleHandlers struct {
	load       func() (*consoleParts, error)
	sessions   Sessions
	compressor *codec.Compressor
}

// consoleParts are the document and the files, by path.
type consoleParts struct {
	document codec.Representation
	files    map[string]codec.Representation
}

func newConsoleHandlers(deps Deps, compressor *codec.Compressor) *consoleHandlers {
	load := sync.OnceValues(func() (*consoleParts, error) {
		return loadConsole(console.Settings{Environment: deps.Environment, Contact: deps.SignInContact})
	})
	return &consoleHandlers{load, deps.Sessions, compressor}
}

func loadConsole(settings console.Settings) (*consoleParts, error) {
	app, err := console.Load(settings)
	if err != nil {
		return nil, err
	}
	parts := &consoleParts{files: make(map[string]codec.Representation, len(app.Files))}
	parts.document = codec.Representation{
		Body: app.Document, ETag: read.ETag(app.Document), MediaType: "text/html; charset=utf-8", Caching: codec.Never,
	}
	for path, file := range app.Files {
		parts.files[path] = codec.Representation{
			Body: file.Body, ETag: read.ETag(file.Body), MediaType: file.MediaType, Caching: codec.Forever,
		}
	}
	return parts, nil
}

func (h *consoleHandlers) routes() []endpoint.Route {
	static := func(path, operation string, handle endpoint.Handler) endpoint.Route {
		return endpoint.Route{Method: fasthttp.MethodGet, Path: path, Operation: operation, Access: endpoint.Static, Handle: handle}
	}
	return []endpoint.Route{
		static("/", "openConsole", openConsole),
		static(console.Path+"{page:*}", "getConsole", h.page),
		static(console.Assets+"{file:*}", "getConsoleFile", h.file),
	}
}

func openConsole(_ context.Context, r *endpoint.Request) error {
	r.Redirect(console.Path)
	return nil
}

// page sends the document, or leads a browser without a session to the sign-in. It looks no session up: the document is the same
// for all, and its scripts find out whether the session has ended.
func (h *consoleHandlers) page(ctx context.Context, r *endpoint.Request) error {
	secure(r.HTTP)
	target := r.HTTP.Request.URI()
	path := string(target.PathOriginal())
	open := path == refusedPage || path == signedOutPage
	if _, signedIn := h.sessions.Authentic(r.HTTP.Request.Header.Cookie(SessionCookie)); !open && !signedIn {
		if query := target.QueryString(); len(query) > 0 {
			path += "?" + string(query)
		}
		r.Redirect(signInPath + "?" + returnToParameter + "=" + url.QueryEscape(returnTo(path)))
		return nil
	}
	parts, err := h.load()
	if err != nil {
		return err
	}
	r.HTTP.Response.Header.Set("Content-Security-Policy", console.Policy)
	r.HTTP.Response.Header.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.compressor.Send(ctx, r.HTTP, parts.document)
	return nil
}

// file sends a file of this build. Another build's is not found, and no cache keeps that.
func (h *consoleHandlers) file(ctx context.Context, r *endpoint.Request) error {
	secure(r.HTTP)
	parts, err := h.load()
	if err != nil {
		return err
	}
	file, known := parts.files[string(r.HTTP.Request.URI().PathOriginal())]
	if !known {
		return apierror.NotFound()
	}
	h.compressor.Send(ctx, r.HTTP, file)
	return nil
}

// secure sets what documents and files have in common.
func secure(ctx *fasthttp.RequestCtx) {
	header := &ctx.Response.Header
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}
