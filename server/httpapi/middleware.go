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
	// body is the buffer that readBody reads into.
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
		s.finishBody,      // a body that nobody read is passed over where it is here, else ends its connection
		s.holdRefusals,    // a flood of them waits for its turn
		s.measureHead,     // HEAD tells the length of the body that it lacks
		s.recoverPanic,    // nothing further in takes the process down
		s.nameRequest,     // x-request-id stands on whatever is answered
		s.observe,         // metrics, access log, span
		s.answerErrors,    // an error becomes its status and Error body
		s.refuseAmbiguous, // what others may read otherwise ends its connection
		s.passGate,        // who is it, and may it pass
		s.boundBody,       // what is announced as too large is not waited for
		s.passSession,     // on a developer's routes: who is signed in
		s.readBody,        // only now, and where it is wanted: memory is for those who may pass
		s.confirmSession,  // and still is, when the body has come
		s.needCatalog,     // before its first load nothing is known, so nothing is "not found"
		s.limitTime,       // the deadline of what has to wait
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
		body := r.body
		if cap(body) > keptBody {
			body = nil
		}
		*r = request{body: body[:0]}
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
				answer := internalError()
				s.metrics.errors.WithLabelValues(answer.code).Inc()
				answer.write(r.http)
			}
			if s.draining.Load() {
				r.http.SetConnectionClose()
			}
		}()
		return next(ctx, r)
	}
}

// measureHead tells of an empty body that it is empty: fasthttp tells the length of no other to HEAD.
func (s *Server) measureHead(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		if response := &r.http.Response; r.http.IsHead() && len(response.Body()) == 0 && response.StatusCode() != fasthttp.StatusNotModified {
			response.Header.SetContentLength(0)
		}
		return err
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

// answerErrors turns a handler's error into its answer; failure.go knows which.
func (s *Server) answerErrors(route *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		if err == nil {
			return nil
		}
		answer := classify(err)
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

// passGate asks the gate once, writes the rate headers, and lets pass whom the route admits. What is refused already is
// told its allowance, and charged, all the same.
func (s *Server) passGate(route *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		decision := s.askGate(ctx, r.http)
		writeRateHeaders(&r.http.Response.Header, decision)
		r.ofKey = decision.OfKey
		if r.refusal != nil {
			return r.refusal
		}
		if err := admit(route.access, decision); err != nil {
			return err
		}
		r.identity = decision.Identity
		return next(ctx, r)
	}
}

// needCatalog answers 503 while the catalogue was never loaded. Once loaded it stays, whatever becomes of Postgres.
func (s *Server) needCatalog(route *route, next handler) handler {
	if !strings.HasPrefix(route.path, examPaths) {
		return next
	}
	return func(ctx context.Context, r *request) error {
		if !s.catalog.Ready() {
			return unavailable()
		}
		return next(ctx, r)
	}
}

// limitTime bounds the work on a request that may have to wait; the others are spared the timer. The gate, which comes
// before, has a time limit of its own.
func (s *Server) limitTime(route *route, next handler) handler {
	if route.needs < needTime {
		return next
	}
	return func(ctx context.Context, r *request) error {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
		defer cancel()
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
	case decision.Outcome == gate.Unauthorized && access != accessKey:
		return nil // limited by its address, but known to nobody
	case decision.Outcome == gate.Unauthorized:
		return &apiError{status: fasthttp.StatusUnauthorized, code: codeUnauthorized, detail: "Invalid API key"}
	default:
		refusal := unavailable()
		refusal.retryAfter = max(wholeSeconds(decision.RetryAfter), refusal.retryAfter)
		return refusal
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
