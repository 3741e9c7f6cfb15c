package httpapi

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// bodyStep is what a body's buffer begins with; it grows as the body arrives, not by what a client announces.
	bodyStep = 4 << 10
	// keptBody bounds the buffer that a request leaves to the next one.
	keptBody = 64 << 10
)

var (
	// errBodyCut is a body that ended before its length or its last chunk.
	errBodyCut = errors.New("the request body broke off")
	// errNoBodyMemory is a body that there is no room for beside the others.
	errNoBodyMemory = errors.New("the memory for request bodies is spent")
)

// bodyMemory counts the bytes of all bodies that are in memory, and bounds them.
type bodyMemory struct {
	most int64
	held atomic.Int64
}

// reserve reports whether there is room for n bytes more; they are held until release.
func (m *bodyMemory) reserve(n int) bool {
	if m.held.Add(int64(n)) > m.most {
		m.release(n)
		return false
	}
	return true
}

func (m *bodyMemory) release(n int) { m.held.Add(-int64(n)) }

// boundBody refuses a body by its announced length alone, whoever would read it.
func (s *Server) boundBody(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		if r.http.Request.Header.ContentLength() > s.cfg.MaxBodyBytes {
			r.http.SetConnectionClose()
			return ofProtocol(fasthttp.ErrBodyTooLarge)
		}
		return next(ctx, r)
	}
}

// readBody reads the request's body where the route takes one, behind the gate and the session, so that memory is spent
// on clients who may pass, and as much as they sent. It is held, and counted, until the request is answered. fasthttp
// hands bodies over unread (StreamRequestBody); read by fasthttp itself, a body that breaks off or overflows would take
// the headers with it, and with them the key and the request id.
func (s *Server) readBody(route *route, next handler) handler {
	if route.needs < needBody {
		return next
	}
	return func(ctx context.Context, r *request) error {
		stream := r.http.Request.BodyStream()
		if stream == nil {
			return next(ctx, r)
		}
		if !s.bodies.reserve(cap(r.body)) {
			r.body = nil
		}
		defer func() { s.bodies.release(cap(r.body)) }() // as much as fill has left it
		started := time.Now()
		err := s.fill(r, stream)
		r.reading = time.Since(started)
		if err != nil {
			r.http.SetConnectionClose()
			return ofProtocol(err)
		}
		return next(ctx, r)
	}
}

// fill leaves the body in r.body and where fasthttp's Body finds it. All of r.body is reserved, before and after.
func (s *Server) fill(r *request, stream io.Reader) error {
	announced := r.http.Request.Header.ContentLength() // -1: in chunks
	most := s.cfg.MaxBodyBytes + 1                     // one byte too many tells that there are too many
	if announced >= 0 {
		most = announced + 1
	}
	for r.body = r.body[:0]; ; {
		if len(r.body) == cap(r.body) && !s.grow(r, most) {
			return errNoBodyMemory
		}
		n, err := stream.Read(r.body[len(r.body):cap(r.body)])
		r.body = r.body[:len(r.body)+n]
		switch {
		case len(r.body) > s.cfg.MaxBodyBytes:
			return fasthttp.ErrBodyTooLarge
		case err == nil:
			continue
		}
		// fasthttp wraps not all that a connection failed of, and ends the stream alike when the body is over and when
		// the connection is.
		switch failure := readFailure(r.http); {
		case errors.Is(failure, io.EOF):
			return errBodyCut
		case failure != nil:
			return failure
		case !errors.Is(err, io.EOF):
			return err
		case len(r.body) < announced:
			return errBodyCut
		}
		r.http.Request.SetBodyRaw(r.body) // which closes the stream
		return nil
	}
}

// grow makes r.body twice as large, but no larger than most. It reports whether there was memory for it.
func (s *Server) grow(r *request, most int) bool {
	size := min(max(2*cap(r.body), bodyStep), most)
	if !s.bodies.reserve(size) {
		return false
	}
	grown := make([]byte, len(r.body), size)
	copy(grown, r.body)
	s.bodies.release(cap(r.body))
	r.body = grown
	return true
}

// finishBody comes last: what nobody read of a body is passed over where all of it is here already, else the connection
// ends; the next request must not begin in the middle of it. Nothing more is read, so nobody's refusal waits for a body,
// and passing over costs no more than a read buffer. One wait is left, fasthttp's own: for a body's first byte.
func (s *Server) finishBody(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		if stream := r.http.Request.BodyStream(); stream != nil && (r.http.Response.ConnectionClose() || !passOver(r.http, stream)) {
			r.http.SetConnectionClose()
			refuseRest(r.http)
		}
		return err
	}
}
