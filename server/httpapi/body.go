package httpapi

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// bodyStep is what a body's buffer begins with; it grows as the body arrives, not by what a client announces.
	bodyStep = 4 << 10
	// keptBody bounds the buffer that a request leaves to the next one.
	keptBody = 64 << 10
	// skippedBody bounds what is read of a body that nobody wants, to keep its connection.
	skippedBody = 64 << 10
)

// errBodyCut is a body that ended before its length or its last chunk.
var errBodyCut = errors.New("the request body broke off")

// readBody reads the request's body behind the gate, so that memory is spent on clients who may pass, and as much as
// they sent. fasthttp hands bodies over unread (StreamRequestBody); read by fasthttp itself, a body that breaks off or
// overflows would take the headers with it, and with them the key and the request id.
func (s *Server) readBody(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		if r.http.Request.BodyStream() == nil {
			return next(ctx, r)
		}
		started := time.Now()
		err := r.readBody(s.cfg.MaxBodyBytes)
		r.reading = time.Since(started)
		if err != nil {
			r.http.SetConnectionClose()
			return ofProtocol(err)
		}
		return next(ctx, r)
	}
}

// readBody leaves the body, of limit bytes or fewer, in r.body and where fasthttp's Body finds it.
func (r *request) readBody(limit int) error {
	announced := r.http.Request.Header.ContentLength() // -1: in chunks
	if announced > limit {
		return fasthttp.ErrBodyTooLarge
	}
	stream := r.http.Request.BodyStream()
	r.body = slices.Grow(r.body[:0], bodyStep)
	for {
		n, err := stream.Read(r.body[len(r.body):cap(r.body)])
		r.body = r.body[:len(r.body)+n]
		switch {
		case len(r.body) > limit:
			return fasthttp.ErrBodyTooLarge
		case errors.Is(err, io.EOF):
			// fasthttp ends the stream alike when the body is over and when the connection is.
			if len(r.body) < announced || connectionEnded(r.http) {
				return errBodyCut
			}
			r.http.Request.SetBodyRaw(r.body) // which closes the stream
			return nil
		case err != nil:
			return err
		}
		if len(r.body) == cap(r.body) {
			r.body = slices.Grow(r.body, len(r.body))
		}
	}
}

// finishBody comes last: what nobody read of a body is passed over, when it is short, else the connection ends. The next
// request must not begin in the middle of it.
func (s *Server) finishBody(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		if stream := r.http.Request.BodyStream(); stream != nil && !r.skipBody(stream) {
			r.http.SetConnectionClose()
			refuseRest(r.http)
		}
		return err
	}
}

// skipBody reports whether the stream is at its end.
func (r *request) skipBody(stream io.Reader) bool {
	if r.http.Response.ConnectionClose() || r.http.Request.Header.ContentLength() > skippedBody {
		return false
	}
	n, err := io.Copy(io.Discard, io.LimitReader(stream, skippedBody+1))
	return err == nil && n <= skippedBody && !connectionEnded(r.http)
}

// readHeader is fasthttp's HeaderReceived hook: it makes fasthttp understand Expect as RFC 9110 §10.1.1 means it, in any
// case, and neither from HTTP/1.0 nor without a body.
func readHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if expect := header.Peek(fasthttp.HeaderExpect); len(expect) > 0 {
		switch {
		case !header.IsHTTP11() || header.ContentLength() == noBody:
			header.Del(fasthttp.HeaderExpect)
		case strings.EqualFold(string(expect), expectContinue):
			header.Set(fasthttp.HeaderExpect, expectContinue)
		}
	}
	return fasthttp.RequestConfig{}
}

const (
	// noBody is the length that fasthttp gives a request without Content-Length and Transfer-Encoding.
	noBody         = -2
	expectContinue = "100-continue"
)

// newExpectHandler answers who asks before sending a body: one that is too large need not be sent.
func (s *Server) newExpectHandler() func(*fasthttp.RequestCtx) int {
	refuse := s.newErrorHandler()
	return func(ctx *fasthttp.RequestCtx) int {
		if ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
			return fasthttp.StatusContinue
		}
		refuse(ctx, fasthttp.ErrBodyTooLarge)
		return ctx.Response.StatusCode()
	}
}
