package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// firstBuffer is the size of a body's first buffer. It grows as the body arrives, not by what a client announces.
const firstBuffer = 4 << 10

// parsing is the memory that reading a body's JSON takes, in multiples of the body: a copy of it, the set of an object's names, and the
// texts of its fields.
const parsing = 3

// errBodyCut reports a body that ended before its length or its last chunk.
var errBodyCut = errors.New("the request body broke off")

// readAll reads at most limit bytes. The claim has the memory of the buffer that it returns, also with an error.
func (c *claim) readAll(stream io.Reader, limit int) (body []byte, err error) {
	for err == nil && len(body) < limit {
		if len(body) == cap(body) {
			size := min(max(2*cap(body), firstBuffer), limit)
			if !c.grow(size) {
				return body, errNoBodyMemory
			}
			grown := append(make([]byte, 0, size), body...)
			c.shrink(cap(body))
			body = grown
		}
		var n int
		n, err = stream.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	return body, err
}

// maxBody returns the maximum of a body of the route, in bytes: at most the server's.
func maxBody(route *endpoint.Route, server int) int {
	return min(cmp.Or(route.MaxBody, endpoint.DefaultMaxBody), server)
}

// readBody reads the body if the route takes one. Its memory and that of its reading count until the handler returns. fasthttp
// hands bodies over unread (StreamRequestBody): if it read them itself, a body that breaks off would take the headers with it, and
// with them the key and the request id.
func (s *Server) readBody(route *endpoint.Route, next handler) handler {
	if route.Needs < endpoint.Body {
		return next
	}
	most := maxBody(route, s.cfg.MaxBodyBytes)
	return func(ctx context.Context, r *exchange) error {
		stream := r.HTTP.Request.BodyStream()
		if stream == nil { // without a body
			return next(ctx, r)
		}
		announced := r.HTTP.Request.Header.ContentLength() // -1: chunked
		limit := most + 1                                  // one byte more shows that there are too many
		if announced >= 0 {
			limit = announced + 1
		}
		started := time.Now()
		var err error
		memory := claim{memory: s.bodies, client: r.client()}
		defer memory.Close()
		r.Body, err = memory.readAll(stream, limit)
		r.reading = time.Since(started)
		if err := bodyFailure(r, err, announced, most); err != nil {
			r.HTTP.SetConnectionClose()
			return fromRead(err)
		}
		r.HTTP.Request.SetBodyRaw(r.Body) // which closes the stream
		if !memory.grow(parsing * len(r.Body)) {
			return fromRead(errNoBodyMemory)
		}
		return next(ctx, r)
	}
}

// bodyFailure returns why a body is not whole, nil if it is. fasthttp does not wrap all errors of a connection, and ends the
// stream in the same way when the body ends and when the connection does.
func bodyFailure(r *exchange, err error, announced, limit int) error {
	switch failure := wire.ReadError(r.HTTP); {
	case len(r.Body) > limit:
		return fasthttp.ErrBodyTooLarge
	case errors.Is(failure, io.EOF), errors.Is(err, io.EOF) && len(r.Body) < announced:
		return errBodyCut
	case failure != nil:
		return failure
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}
