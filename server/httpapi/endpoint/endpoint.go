package endpoint

import (
	"context"
	"net/netip"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
)

// Access determines who may use a route.
type Access int

const (
	// APIKey requires a valid API key.
	APIKey Access = iota
	// Open requires nothing. Requests count against the client's address.
	Open
	// Session requires the cookie of a signed-in developer. Requests count against the session.
	Session
)

// Needs are what a handler needs in addition to the head of its request.
type Needs int

const (
	// Nothing is for a handler that answers from memory.
	Nothing Needs = iota
	// Time is for a handler that waits for a database or another service: it has a deadline.
	Time
	// Body is as Time, and the request's body is read before. The bodies of other routes are not read.
	Body
)

// Route is one operation (docs/spec.md, parts 4 to 6).
type Route struct {
	Method string
	// Path matches as it was sent. {exam_key} and its like match one segment.
	Path string
	// Operation is the operationId of the contract. Metrics, logs and traces use it.
	Operation string
	Access    Access
	Needs     Needs
	Handle    Handler
}

// Handler answers a request, or returns the error that is its answer.
type Handler func(ctx context.Context, r *Request) error

// Request is one exchange: fasthttp's context and what the middlewares found out. It is valid until its handler returns.
type Request struct {
	HTTP *fasthttp.RequestCtx
	// ID is the x-request-id.
	ID []byte
	// Client is the client's address, behind trusted proxies.
	Client netip.Addr
	// Identity is the owner of the API key; zero on other routes.
	Identity keys.Identity
	// Session is the signed-in developer's; zero on other routes.
	Session sessions.Session
}

// JSON reads the request's body, which is an object.
func (r *Request) JSON() *codec.Body { return codec.ReadBody(&r.HTTP.Request) }

// HasBody reports whether the request has a body.
func (r *Request) HasBody() bool { return len(r.HTTP.Request.Body()) > 0 }

// Query reads the request's query.
func (r *Request) Query() *codec.Query { return codec.ReadQuery(r.HTTP) }

// Cookie returns the value of a cookie, empty if there is none.
func (r *Request) Cookie(name string) string { return string(r.HTTP.Request.Header.Cookie(name)) }
