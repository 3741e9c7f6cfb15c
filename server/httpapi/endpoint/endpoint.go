package endpoint

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/valyala/bytebufferpool"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
)

// Access determines who may use a route.
type Access int

// The kinds of access.
const (
	APIKey  Access = iota // requires a valid API key
	Open                  // requires nothing; requests count against the client's address
	Static                // requires nothing; requests count against nothing, and pass also if their address has no token
	Session               // requires the cookie of a signed-in developer; requests count against the session
)

// Needs are what a handler needs in addition to the head of its request.
type Needs int

// The needs, each with those before it.
const (
	Nothing Needs = iota // for a handler that answers from memory
	Time                 // for a handler that waits for a database or another service: it has a deadline
	Body                 // as Time, and the request's body is read before; the handlers of other routes find none
)

// Route is one operation (docs/spec.md, parts 4 to 6).
type Route struct {
	Method    string
	Path      string // matches as it was sent; {exam_key} and its like match one segment
	Operation string // the operationId of the contract, in metrics, logs and traces
	Access    Access
	Role      accounts.Role // that a session needs in its account; empty: a session without an account passes too
	Needs     Needs
	MaxBody   int  // bytes of the request's body; 0 means DefaultMaxBody
	Reserves  bool // Handle calls Request.Reserve
	Handle    Handler
}

// DefaultMaxBody is the maximum of a request's body, in bytes, unless its operation needs more.
const DefaultMaxBody = 16 << 10

// Handler answers a request, or returns the error that is its answer.
type Handler func(ctx context.Context, r *Request) error

// Request is one exchange: fasthttp's context and what the middlewares found out. It is valid until its handler returns.
type Request struct {
	HTTP     *fasthttp.RequestCtx
	ID       []byte           // the x-request-id
	Client   netip.Addr       // the client's address, behind trusted proxies
	Identity keys.Identity    // the owner of the API key; zero on other routes
	Session  sessions.Session // the signed-in developer's; zero on other routes
	ExamKey  string           // the exam's of the path; empty on other routes
	Body     []byte           // empty if the route does not need it: nothing reads it past the limit for bodies in memory
	// Reserve makes room for the memory that a response of the client takes, in bytes, or returns the error that answers the request. A
	// handler calls it before it makes a large response. nil without Route.Reserves.
	Reserve func(bytes int) error
	Own     bool // the response's body was made for this request alone, so its memory counts until it is sent
}

// JSON returns the fields of Body, which is an object.
func (r *Request) JSON() *codec.Fields { return codec.ReadBody(&r.HTTP.Request.Header, r.Body) }

// Query reads the request's query.
func (r *Request) Query() *codec.Fields { return codec.ReadQuery(r.HTTP) }

// Cookie returns the value of a cookie, empty if there is none.
func (r *Request) Cookie(name string) string { return string(r.HTTP.Request.Header.Cookie(name)) }

// Param returns a decoded parameter of the path, as a copy. It is empty if it cannot be decoded.
func (r *Request) Param(name string) string {
	segment, _ := r.HTTP.UserValue(name).(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return ""
	}
	return decoded
}

// ReadExamKey sets ExamKey. A segment that cannot be a key (broken encoding, control characters) names no exam: these paths have
// no 400 in the specification.
func (r *Request) ReadExamKey() error {
	key := r.Param("exam_key")
	if key == "" || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return apierror.ExamNotFound()
	}
	r.ExamKey = key
	return nil
}

// UUID returns an id of the path. A segment that is not a UUID names nothing.
func (r *Request) UUID(name string) (uuid.UUID, error) {
	id, isID := codec.ParseUUID(r.Param(name))
	if !isID {
		return uuid.Nil, apierror.NotFound()
	}
	return id, nil
}

// Send sends v as JSON if err is nil, else it returns err.
func (r *Request) Send(status int, v any, err error) error {
	if err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	r.describeOwn()
	r.HTTP.Response.SetBodyRaw(body)
	r.HTTP.SetStatusCode(status)
	return nil
}

// OK is Send with the status 200.
func (r *Request) OK(v any, err error) error { return r.Send(fasthttp.StatusOK, v, err) }

// Append sends the body of JSON that appendBody appends to an empty buffer. The status is 200.
func (r *Request) Append(appendBody func(dst []byte) []byte) {
	r.describeOwn()
	used := buffer{bytebufferpool.Get()}
	r.HTTP.SetUserValue(buffer{}, used)
	used.B = appendBody(used.B)
	r.HTTP.Response.SetBodyRaw(used.B)
}

// buffer is the memory of a body. fasthttp closes it with the user values, when it has written the response or has given up. A buffer
// of fasthttp's own would stay with the connection, as large as its largest response.
type buffer struct{ *bytebufferpool.ByteBuffer }

// Close implements io.Closer. Another response can have the memory then.
func (b buffer) Close() error {
	bytebufferpool.Put(b.ByteBuffer)
	return nil
}

// describeOwn sets the headers of a body of JSON that is made for this request.
func (r *Request) describeOwn() {
	r.Own = true
	r.HTTP.Response.Header.SetContentType("application/json")
	r.HTTP.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
}

// NoContent sends 204 if err is nil, else it returns err.
func (r *Request) NoContent(err error) error {
	if err == nil {
		r.HTTP.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// Redirect sends a browser to an address (303).
func (r *Request) Redirect(address string) {
	r.HTTP.Response.Header.Set(fasthttp.HeaderLocation, address)
	r.HTTP.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	r.HTTP.SetStatusCode(fasthttp.StatusSeeOther)
}
