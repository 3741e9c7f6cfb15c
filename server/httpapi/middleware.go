package httpapi

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
)

// A request is one exchange. It lives as long as its handler.
type request struct {
	http *fasthttp.RequestCtx
	// id is the x-request-id; it lies in idBuffer.
	id       []byte
	idBuffer [maxRequestID]byte
	// began is when the request reached nameRequest.
	began time.Time
	// identity is whose key it is; set by the gate, the zero value on open routes.
	identity keys.Identity
	// ofKey says that the key is valid, though perhaps without an allowance left; set by the gate.
	ofKey bool
	// session is who is signed in, on a developer's routes.
	session sessions.Session
	// refusal is why the request is refused whatever it asks for: it could not be read, or only in two ways. Else nil.
	refusal *apiError
	// body is what readBody has read.
	body []byte
	// reading is how long the body took to arrive: the client's time, not ours.
	reading time.Duration
}

// A handler answers a request, or returns the error that is its answer.
type handler func(ctx context.Context, r *request) error

// A middleware wraps the handler of one route; it is called once per route, when the table is built.
type middleware func(route *route, next handler) handler

// middlewares is what every request passes, outermost first: those that match no route and those that fasthttp could not
// read, too.
func (s *Server) middlewares() []middleware {
	return []middleware{
		s.finish,       // discards an unread body, or ends the connection
		s.holdRefusals, // delays a flood of refusals
		s.recoverPanic, // keeps the process alive
		s.nameRequest,  // x-request-id is on every answer
		s.observe,      // metrics, access log, span
		s.answerErrors, // an error becomes its status and Error body
		s.passGate,     // framing, key and rate limit
		s.passSession,  // the session, on a developer's routes
		s.readBody,     // memory is for clients that may pass
		s.prepare,      // catalogue and deadline
	}
}

// chain puts a route's handler behind the middlewares.
func (s *Server) chain(route *route) handler {
	handle := route.handle
	for _, wrapper := range slices.Backward(s.middlewares()) {
		handle = wrapper(route, handle)
	}
	return handle
}

// wrap makes a route what fasthttp calls.
func (s *Server) wrap(route route) fasthttp.RequestHandler {
	handle := s.chain(&route)
	return func(ctx *fasthttp.RequestCtx) {
		r, ok := s.requests.Get().(*request)
		if !ok {
			r = new(request)
		}
		r.http = ctx
		_ = handle(s.life, r) // answerErrors leaves none
		*r = request{}
		s.requests.Put(r)
	}
}

// recoverPanic answers 500 for a handler that panics: fasthttp itself would let it end the process.
func (s *Server) recoverPanic(route *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		defer func() {
			if cause := recover(); cause != nil {
				s.metrics.panics.Inc()
				s.logger.LogAttrs(ctx, slog.LevelError, "handler panicked",
					slog.String("operation", route.operation), slog.String("request_id", string(r.id)),
					slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
				s.metrics.errors.WithLabelValues(codeInternal).Inc()
				internalError().write(r.http)
			}
			if s.draining.Load() {
				r.http.SetConnectionClose()
			}
		}()
		return next(ctx, r)
	}
}

// nameRequest takes the caller's request id or makes one.
func (s *Server) nameRequest(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		r.began = time.Now()
		r.id = appendRequestID(r.idBuffer[:0], r.http.Request.Header.PeekCanonical(fieldRequestID))
		r.http.Response.Header.SetCanonical(headerRequestID, r.id)
		return next(ctx, r)
	}
}

// observe counts, times and logs. Every request is logged at level debug, what failed on our side at error: at full
// load a line for each success would cost more than the answer.
func (s *Server) observe(route *route, next handler) handler {
	figures := s.metrics.operation(route)
	return func(ctx context.Context, r *request) error {
		ctx, span := s.startSpan(ctx, route, r)
		s.metrics.inFlight.Inc()
		status := fasthttp.StatusInternalServerError // unless the handler returns: it panicked
		defer func() {
			took := time.Since(r.began) - r.reading
			s.metrics.inFlight.Dec()
			figures.count(status, took)
			endSpan(span, status)
			s.logAccess(ctx, route, r, status, took)
		}()
		err := next(ctx, r)
		status = r.http.Response.StatusCode()
		return err
	}
}

func (s *Server) logAccess(ctx context.Context, route *route, r *request, status int, took time.Duration) {
	level := slog.LevelDebug
	if status >= fasthttp.StatusInternalServerError {
		level = slog.LevelError
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	s.logger.LogAttrs(ctx, level, "request",
		slog.String("operation", route.operation), slog.Int("status", status), slog.Duration("took", took),
		slog.String("request_id", string(r.id)), slog.String("key_id", r.identity.KeyID.String()),
		slog.Int("request_bytes", len(r.body)), slog.Int("response_bytes", len(r.http.Response.Body())))
}

// answerErrors turns a handler's error into its answer; from.go knows which.
func (s *Server) answerErrors(route *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		if err == nil {
			return nil
		}
		answer := from(err)
		s.metrics.errors.WithLabelValues(answer.code).Inc()
		if answer.status >= fasthttp.StatusInternalServerError {
			s.logger.LogAttrs(ctx, slog.LevelError, "request failed",
				slog.String("operation", route.operation), slog.String("request_id", string(r.id)),
				slog.String("code", answer.code), slog.Any("error", err))
		}
		answer.write(r.http)
		return nil
	}
}

// passGate checks the framing, the key and the rate limit, and sets the rate headers. The gate is asked once, and charges
// refused requests as well. A body that is announced as too large is refused here, also where no body is read.
func (s *Server) passGate(route *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		problem, closes := checkFraming(&r.http.Request.Header)
		if closes {
			r.http.SetConnectionClose()
		}
		if problem != "" && r.refusal == nil {
			refuseRest(r.http)
			r.refusal = badRequest(problem)
		}
		decision := s.askGate(ctx, route, r.http)
		writeRateHeaders(&r.http.Response.Header, decision)
		r.ofKey = decision.OfKey
		if r.refusal != nil {
			return r.refusal
		}
		if err := admit(route.access, decision); err != nil {
			return err
		}
		r.identity = decision.Identity
		if r.http.Request.Header.ContentLength() > s.cfg.MaxBodyBytes {
			r.http.SetConnectionClose()
			return fromRead(fasthttp.ErrBodyTooLarge)
		}
		return next(ctx, r)
	}
}

// prepare returns 503 while the catalogue was never loaded, on routes that read it: nothing is "not found" then. It sets
// the deadline of a request that may have to wait. The gate, which comes before, has a time limit of its own.
func (s *Server) prepare(route *route, next handler) handler {
	readsCatalog := strings.HasPrefix(route.path, examPaths)
	return func(ctx context.Context, r *request) error {
		if readsCatalog && !s.catalog.Ready() {
			return unavailable()
		}
		if route.needs >= needTime {
			limited, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
			defer cancel()
			ctx = limited
		}
		return next(ctx, r)
	}
}

// admit returns why a request does not pass. Outcome for outcome, so that a new one is refused until it stands here.
func admit(access access, decision gate.Decision) error {
	switch {
	case decision.Outcome == gate.Allowed:
		return nil
	case decision.Outcome == gate.Limited:
		return &apiError{
			status: fasthttp.StatusTooManyRequests, code: codeRateLimited, detail: "API rate limit exceeded.",
			retryAfter: max(wholeSeconds(decision.RetryAfter), 1),
		}
	case decision.Outcome != gate.Unauthorized:
		refusal := unavailable()
		refusal.retryAfter = max(wholeSeconds(decision.RetryAfter), refusal.retryAfter)
		return refusal
	case access == accessKey:
		return &apiError{status: fasthttp.StatusUnauthorized, code: codeUnauthorized, detail: "Invalid API key"}
	default:
		return nil // limited by its address, but known to nobody
	}
}

// writeRateHeaders writes the four fields of draft-ietf-httpapi-ratelimit-headers-06.
func writeRateHeaders(header *fasthttp.ResponseHeader, decision gate.Decision) {
	var buffer [64]byte
	header.SetCanonical(headerRateLimit, strconv.AppendInt(buffer[:0], int64(decision.Limit), 10))
	header.SetCanonical(headerRateRemaining, strconv.AppendInt(buffer[:0], int64(decision.Remaining), 10))
	header.SetCanonical(headerRateReset, strconv.AppendInt(buffer[:0], int64(wholeSeconds(decision.Reset)), 10))
	policy := append(strconv.AppendInt(buffer[:0], int64(decision.Policy.Requests), 10), ";w="...)
	header.SetCanonical(headerRatePolicy, strconv.AppendInt(policy, int64(wholeSeconds(decision.Policy.Window)), 10))
}

// wholeSeconds rounds up: a client that waits so long is never too early.
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
