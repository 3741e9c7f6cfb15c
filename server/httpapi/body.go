package httpapi

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// bodyStep is a body's first buffer; it grows as the body arrives, not by what a client announces.
const bodyStep = 4 << 10

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

// readAll reads at most so many bytes. The buffer that it returns is held, with an error too.
func (m *bodyMemory) readAll(stream io.Reader, most int) (body []byte, err error) {
	for err == nil && len(body) < most {
		if len(body) == cap(body) {
			size := min(max(2*cap(body), bodyStep), most)
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
		announced := r.http.Request.Header.ContentLength() // -1: in chunks
		most := s.cfg.MaxBodyBytes + 1                     // one byte too many tells that there are too many
		if announced >= 0 {
			most = announced + 1
		}
		started := time.Now()
		var err error
		r.body, err = s.bodies.readAll(stream, most)
		defer s.bodies.release(cap(r.body))
		r.reading = time.Since(started)
		if err := bodyFailure(r, err, announced, s.cfg.MaxBodyBytes); err != nil {
			r.http.SetConnectionClose()
			return fromRead(err)
		}
		r.http.Request.SetBodyRaw(r.body) // which closes the stream
		return next(ctx, r)
	}
}

// bodyFailure is why a body is not whole, if it is not. fasthttp wraps not all that a connection failed of, and ends the
// stream alike when the body is over and when the connection is.
func bodyFailure(r *request, err error, announced, most int) error {
	switch failure := readFailure(r.http); {
	case len(r.body) > most:
		return fasthttp.ErrBodyTooLarge
	case errors.Is(failure, io.EOF), errors.Is(err, io.EOF) && len(r.body) < announced:
		return errBodyCut
	case failure != nil:
		return failure
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// finish comes last. What nobody read of a body is passed over where all of it is here already, else the connection ends;
// the next request must not begin in the middle of it. It never waits for more of the body. It also tells HEAD that an
// empty body is empty, as fasthttp does not.
func (s *Server) finish(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		response := &r.http.Response
		if r.http.IsHead() && len(response.Body()) == 0 && response.StatusCode() != fasthttp.StatusNotModified {
			response.Header.SetContentLength(0)
		}
		if stream := r.http.Request.BodyStream(); stream != nil && (response.ConnectionClose() || !passOver(r.http, stream)) {
			r.http.SetConnectionClose()
			refuseRest(r.http)
		}
		return err
	}
}
