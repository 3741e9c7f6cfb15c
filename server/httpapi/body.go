package httpapi

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// firstBuffer is the size of a body's first buffer. It grows as the body arrives, not by what a client announces.
const firstBuffer = 4 << 10

var (
	// errBodyCut reports a body that ended before its length or its last chunk.
	errBodyCut = errors.New("the request body broke off")
	// errNoBodyMemory reports that the memory for bodies is used up.
	errNoBodyMemory = errors.New("no memory for the request body")
)

// bodyMemory counts the bytes of all bodies in memory, and limits them.
type bodyMemory struct {
	limit int64
	held  atomic.Int64
}

// reserve reports whether there is room for n more bytes. They are held until release.
func (m *bodyMemory) reserve(n int) bool {
	if m.held.Add(int64(n)) > m.limit {
		m.release(n)
		return false
	}
	return true
}

func (m *bodyMemory) release(n int) { m.held.Add(-int64(n)) }

// readAll reads at most limit bytes. The buffer that it returns is held, also with an error.
func (m *bodyMemory) readAll(stream io.Reader, limit int) (body []byte, err error) {
	for err == nil && len(body) < limit {
		if len(body) == cap(body) {
			size := min(max(2*cap(body), firstBuffer), limit)
			if !m.reserve(size) {
				return body, errNoBodyMemory
			}
			grown := append(make([]byte, 0, size), body...)
			m.release(cap(body))
			body = grown
		}
		var n int
		n, err = stream.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	return body, err
}

// readBody reads the body if the route takes one. The request counts its memory until its response. fasthttp hands bodies over
// unread (StreamRequestBody): if it read them itself, a body that breaks off would take the headers with it, and with them the
// key and the request id.
func (s *Server) readBody(route *endpoint.Route, next handler) handler {
	if route.Needs < endpoint.Body {
		return next
	}
	return func(ctx context.Context, r *exchange) error {
		stream := r.HTTP.Request.BodyStream()
		if stream == nil { // without a body
			return next(ctx, r)
		}
		announced := r.HTTP.Request.Header.ContentLength() // -1: chunked
		limit := s.cfg.MaxBodyBytes + 1                    // one byte more shows that there are too many
		if announced >= 0 {
			limit = announced + 1
		}
		started := time.Now()
		var err error
		r.Body, err = s.bodies.readAll(stream, limit)
		defer s.bodies.release(cap(r.Body))
		r.reading = time.Since(started)
		if err := bodyFailure(r, err, announced, s.cfg.MaxBodyBytes); err != nil {
			r.HTTP.SetConnectionClose()
			return fromRead(err)
		}
		r.HTTP.Request.SetBodyRaw(r.Body) // which closes the stream
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
