package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// exchange is a request and the data that only the middlewares need.
type exchange struct {
	endpoint.Request

	idBuffer [maxRequestID]byte // of ID
	began    time.Time
	ofKey    bool            // the request has a valid key
	refusal  *apierror.Error // of a request that could not be read, or could be read in two ways; else nil
	reading  time.Duration   // how long the body took to arrive: the client's time
	unlogged bool            // the operation's 503 was logged in this second
}

// handler answers an exchange, or returns the error that is its answer.
type handler func(ctx context.Context, r *exchange) error

// middleware wraps the handler of a route. It is called once for each route.
type middleware func(route *endpoint.Route, next handler) handler

// middlewares are what each request passes, outermost first, also a request without a route and one that fasthttp cannot read.
func (s *Server) middlewares() []middleware {
	return []middleware{
		s.recoverPanic,        // keeps the process alive
		finish,                // discards an unread body, or ends the connection
		s.refusals.delay,      // slows a flood of refusals
		setRequestID,          // x-request-id is on each response
		s.observe,             // metrics, access log, span
		s.writeErrors,         // an error becomes a status and an Error body
		s.bodies.keepResponse, // a response takes memory until it is sent
		s.authenticate,        // framing, key, rate limit
		s.requireSession,      // on a developer's routes
		s.readBody,            // only bodies of clients that may pass take memory
		s.prepare,             // catalogue and deadline
	}
}

// chain puts a route's handler behind the middlewares.
func (s *Server) chain(route *endpoint.Route) handler {
	handle := func(ctx context.Context, r *exchange) error { return route.Handle(ctx, &r.Request) }
	for _, wrapper := range slices.Backward(s.middlewares()) {
		handle = wrapper(route, handle)
	}
	return handle
}

// wrap returns a route as fasthttp calls it.
func (s *Server) wrap(route endpoint.Route) fasthttp.RequestHandler {
	handle := s.chain(&route)
	return func(ctx *fasthttp.RequestCtx) {
		r, ok := s.requests.Get().(*exchange)
		if !ok {
			r = new(exchange)
		}
		if r.HTTP = ctx; !s.admitsBody(s.life, &route, r) {
			_ = handle(s.life, r) // writeErrors leaves none
		}
		*r = exchange{}
		s.requests.Put(r)
	}
}

// recoverPanic returns 500 if a handler or a middleware panics; fasthttp would let the process end. The connection ends too,
// because finish did not run to its end.
func (s *Server) recoverPanic(route *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		defer func() {
			if cause := recover(); cause != nil {
				s.metrics.panics.Inc()
				s.deps.Logger.LogAttrs(ctx, slog.LevelError, "handler panicked",
					slog.String("operation", route.Operation), slog.String("request_id", string(r.ID)),
					slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
				s.metrics.errors.WithLabelValues(route.Operation, apierror.CodeInternal).Inc()
				apierror.Internal().Write(r.HTTP)
				r.HTTP.SetConnectionClose()
				wire.LingerOnClose(r.HTTP)
			}
			if s.draining.Load() {
				r.HTTP.SetConnectionClose()
			}
		}()
		return next(ctx, r)
	}
}

func setRequestID(_ *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		r.began = time.Now()
		r.ID = appendRequestID(r.idBuffer[:0], r.HTTP.Request.Header.Peek("X-Request-Id"), r.began)
		r.HTTP.Response.Header.SetCanonical([]byte("x-request-id"), r.ID)
		return next(ctx, r)
	}
}

const maxRequestID = 128 // bytes

// appendRequestID appends the client's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else a new UUIDv7.
func appendRequestID(dst, presented []byte, now time.Time) []byte {
	isOther := func(c rune) bool {
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		return !isLetter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	}
	if len(presented) == 0 || len(presented) > maxRequestID || bytes.IndexFunc(presented, isOther) >= 0 {
		return appendUUIDv7(dst, now)
	}
	return append(dst, presented...)
}

// appendUUIDv7 appends a UUIDv7 of a time (RFC 9562 §5.7). A request id is not a secret, so its random bits can be predictable.
func appendUUIDv7(dst []byte, now time.Time) []byte {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|7<<12|rand.Uint64()>>52)
	binary.BigEndian.PutUint64(id[8:], 1<<63|rand.Uint64()>>2)
	text, _ := id.MarshalText() // it never fails
	return append(dst, text...)
}

// observe counts, times and logs. Each request is logged at level debug, and a failure of the server at level error (see
// writeErrors). A line for each success would cost more than the response under full load.
func (s *Server) observe(route *endpoint.Route, next handler) handler {
	series := s.metrics.operation(route)
	return func(ctx context.Context, r *exchange) error {
		ctx, span := s.tracing.start(ctx, route, r)
		s.metrics.inFlight.Inc()
		status := fasthttp.StatusInternalServerError // of a handler that panics
		defer func() {
			took := time.Since(r.began) - r.reading
			s.metrics.inFlight.Dec()
			series.count(status, took)
			endSpan(span, status)
			s.logAccess(ctx, route, r, status, took)
		}()
		err := next(ctx, r)
		status = r.HTTP.Response.StatusCode()
		return err
	}
}

func (s *Server) logAccess(ctx context.Context, route *endpoint.Route, r *exchange, status int, took time.Duration) {
	level := slog.LevelDebug
	if status >= fasthttp.StatusInternalServerError && !r.unlogged {
		level = slog.LevelError
	}
	if !s.deps.Logger.Enabled(ctx, level) {
		return
	}
	s.deps.Logger.LogAttrs(ctx, level, "request",
		slog.String("operation", route.Operation), slog.Int("status", status), slog.Duration("took", took),
		slog.String("request_id", string(r.ID)), slog.String("key_id", r.Identity.KeyID.String()),
		slog.Int("request_bytes", len(r.Body)), slog.Int("response_bytes", len(r.HTTP.Response.Body())))
}

// writeErrors makes a handler's error the response that apierror.From decides. A 503 of an operation is logged once a second: clients
// can cause any number of them during an outage.
func (s *Server) writeErrors(route *endpoint.Route, next handler) handler {
	outages := rate.NewLimiter(1, 1)
	return func(ctx context.Context, r *exchange) error {
		err := next(ctx, r)
		if err == nil {
			return nil
		}
		answer := apierror.From(err)
		s.metrics.errors.WithLabelValues(route.Operation, answer.Code).Inc()
		r.unlogged = answer.Code == apierror.CodeServiceUnavailable && !outages.Allow()
		if answer.Status >= fasthttp.StatusInternalServerError && !r.unlogged {
			s.deps.Logger.LogAttrs(ctx, slog.LevelError, "request failed",
				slog.String("operation", route.Operation), slog.String("request_id", string(r.ID)),
				slog.String("code", answer.Code), slog.Any("error", err))
		}
		answer.Write(r.HTTP)
		return nil
	}
}

// requireSession admits signed-in developers to their routes. The look-up has a time limit of its own, because the handler's
// begins after the body was read.
func (s *Server) requireSession(route *endpoint.Route, next handler) handler {
	if route.Access != endpoint.Session {
		return next
	}
	return func(ctx context.Context, r *exchange) error {
		acting, err := developer.Admit(ctx, &r.Request, route.Role, s.deps.Developer.Sessions, s.cfg.HandleTimeout)
		if err != nil {
			return err
		}
		wire.Prove(r.HTTP)
		return next(acting, r)
	}
}

// prepare returns 503 on routes that read the catalogue until it was loaded once: "not found" would be wrong then. It reads the
// exam's key, and sets the deadline of a handler that can wait. The gate has a time limit of its own.
func (s *Server) prepare(route *endpoint.Route, next handler) handler {
	readsCatalog, hasKey := strings.HasPrefix(route.Path, examPaths), strings.Contains(route.Path, "{exam_key}")
	return func(ctx context.Context, r *exchange) error {
		if readsCatalog && !s.deps.Catalog.Ready() {
			return apierror.Unavailable()
		}
		if hasKey {
			if err := r.ReadExamKey(); err != nil {
				return err
			}
		}
		if route.Needs >= endpoint.Time {
			limited, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
			defer cancel()
			ctx = limited
		}
		return next(ctx, r)
	}
}

// finish runs last. It discards an unread body that has arrived, else it ends the connection: the next request must not begin in
// the middle of the body. It never waits for more of it. It also tells HEAD the length of an empty body, which fasthttp does not.
func finish(_ *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		err := next(ctx, r)
		response := &r.HTTP.Response
		if r.HTTP.IsHead() && len(response.Body()) == 0 && response.StatusCode() != fasthttp.StatusNotModified {
			response.Header.SetContentLength(0)
		}
		if stream := r.HTTP.Request.BodyStream(); stream != nil && (response.ConnectionClose() || !wire.Discard(r.HTTP, stream)) {
			r.HTTP.SetConnectionClose()
			wire.LingerOnClose(r.HTTP)
		}
		return err
	}
}
