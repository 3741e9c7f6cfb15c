package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
)

// Gate decides whose key a request has and whether it may pass; *gate.Gate implements it.
type Gate interface {
	// Check takes the Authorization header as it came and the client's address. It keeps neither.
	Check(ctx context.Context, authorization []byte, client netip.Addr) gate.Decision
	// CheckSession takes the token of a session. It does not keep it.
	CheckSession(ctx context.Context, token []byte) gate.Decision
}

// Catalog is what is read of the exams; *catalog.Snapshot is one. Its methods never wait, and what they return is
// shared and must not be changed.
type Catalog interface {
	// Ready reports whether the catalogue was loaded once.
	Ready() bool
	// OnChange has changed called with the list of exams: now, and before each change of the catalogue becomes visible.
	OnChange(changed func([]catalog.ExamEntry))
	// Overview and the other documents fail with *catalog.NotFoundError or *catalog.UnavailableError.
	Overview(examKey string) (catalog.Document, error)
	Resources(examKey string) (catalog.Document, error)
	StudyPath(examKey string) (catalog.Document, error)
	Papers(examKey string) (catalog.Document, error)
}

// Attempts is the mock-exam engine; *attempts.Service is one. A client's mistake is an *attempts.Error.
type Attempts interface {
	Open(ctx context.Context, who keys.Identity, req attempts.OpenRequest) (attempts.Opened, error)
	Page(ctx context.Context, who keys.Identity, req attempts.PageRequest) (attempts.Page, error)
	Submit(ctx context.Context, who keys.Identity, req attempts.SubmitRequest) (attempts.Result, error)
	History(ctx context.Context, who keys.Identity, req attempts.HistoryRequest) (attempts.History, error)
}

// Config bounds a Server; zero values take the defaults.
type Config struct {
	// TrustedProxies are the networks whose X-Forwarded-For is believed, and whose connections are neither counted nor held
	// (MaxConnectionsPerAddress, RefusalsPerSecond). None by default.
	TrustedProxies []netip.Prefix
	// MaxConnections are served at once (16384); one more is answered 503.
	MaxConnections int
	// MaxConnectionsPerAddress are served at once of one client address (an IPv4 address, or the /64 of an IPv6 one); one
	// more is answered 503. Trusted proxies are not counted. None by default: behind a load balancer that is not trusted
	// everybody has its address.
	MaxConnectionsPerAddress int
	// RefusalsPerSecond are answered at once (2000): 401 and 429 without a valid key beyond it wait for their turn, and with
	// them what else their connection bears (pacing.go). Trusted proxies do not wait; a load balancer that is not trusted does.
	RefusalsPerSecond int
	// MaxHeaderBytes bounds request line and headers together (8 KiB): 431.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request body (1 MiB): 413.
	MaxBodyBytes int
	// MaxBodyMemory bounds the bodies of all requests together that are in memory at one time, in bytes (256 MiB): 503.
	MaxBodyMemory int
	// ReadTimeout is for a whole request, from its first byte to its last (15 s): 408.
	ReadTimeout time.Duration
	// HandleTimeout is for the work on a request (10 s): 503.
	HandleTimeout time.Duration
	// WriteTimeout is for the answer to be taken (30 s); then the connection is cut.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request (75 s, more than the usual 60 s of proxies, so
	// that it is they who close).
	IdleTimeout time.Duration
	// TrustTraceparent lets a request's traceparent header continue its trace, and decide whether that is recorded: for an
	// ingress that makes or checks these headers. Otherwise a client could have as much recorded as it likes, in traces that
	// are not its own: its header is a link from the request's own trace then.
	TrustTraceparent bool
	// DrainDelay is how long new connections are still accepted after Serve's context ended, while load balancers take
	// note of the pod's leaving (0). Its answers close their connections already.
	DrainDelay time.Duration
	// ShutdownGrace is how long requests in hand may take after that (20 s); then they are cut.
	ShutdownGrace time.Duration
}

func (c Config) withDefaults() Config {
	c.MaxConnections = cmp.Or(c.MaxConnections, 16<<10)
	c.RefusalsPerSecond = cmp.Or(c.RefusalsPerSecond, 2000)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 8<<10)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 1<<20)
	c.MaxBodyMemory = cmp.Or(c.MaxBodyMemory, 256<<20)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 15*time.Second)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 75*time.Second)
	c.ShutdownGrace = cmp.Or(c.ShutdownGrace, 20*time.Second)
	return c
}

// Deps are what a Server answers from. All are required but Developer and Tracer.
type Deps struct {
	Gate     Gate
	Catalog  Catalog
	Attempts Attempts
	// Developer is nil where nobody can sign in.
	Developer  *Developer
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Tracer makes a span of each request that Draw says yes to (nil: of each); nil: none.
	Tracer trace.Tracer
	Draw   func() bool
}

// Server serves the interface once: from New through Serve to its end.
type Server struct {
	cfg       Config
	gate      Gate
	catalog   Catalog
	attempts  Attempts
	developer *Developer
	logger    *slog.Logger
	tracer    trace.Tracer
	draw      func() bool

	metrics      *metrics
	list         *examList
	compressions *compressions
	// reference is loaded when somebody first asks for it.
	reference func() (map[string]representation, error)
	http      *fasthttp.Server
	requests  sync.Pool
	refusals  *rate.Limiter
	bodies    *bodyMemory

	// life is every request's context; it ends when the grace is over.
	life     context.Context //nolint:containedctx // a server's own life, not a call's
	end      context.CancelFunc
	draining atomic.Bool
}

// New returns a Server that waits for Serve. It panics when its metrics are registered already.
func New(cfg Config, deps Deps) *Server {
	s := &Server{
		cfg: cfg.withDefaults(), gate: deps.Gate, catalog: deps.Catalog, attempts: deps.Attempts,
		developer: deps.Developer, logger: deps.Logger, tracer: deps.Tracer, draw: deps.Draw,
		list: newExamList(), compressions: newCompressions(compressionBudget),
		reference: sync.OnceValues(loadReference),
	}
	s.catalog.OnChange(s.list.update)
	s.bodies = &bodyMemory{most: int64(s.cfg.MaxBodyMemory)}
	s.metrics = newMetrics(deps.Registerer, s.bodies)
	s.refusals = rate.NewLimiter(rate.Limit(s.cfg.RefusalsPerSecond), s.cfg.RefusalsPerSecond)
	s.life, s.end = context.WithCancel(context.Background())
	s.http = &fasthttp.Server{
		Handler:      s.newRouter().Handler,
		ErrorHandler: s.newErrorHandler(),
		ConnState:    trackState,
		Logger:       connectionLog{deps.Logger},

		ReadTimeout:        s.cfg.ReadTimeout,
		WriteTimeout:       s.cfg.WriteTimeout,
		IdleTimeout:        s.cfg.IdleTimeout,
		ReadBufferSize:     s.cfg.MaxHeaderBytes,
		WriteBufferSize:    writeBuffer,
		StreamRequestBody:  true, // readBody reads bodies
		MaxRequestBodySize: 1,    // and all but the first byte of them
		HeaderReceived:     readHeader,
		// The listener refuses first, in JSON; fasthttp's own refusal is plain text. A worker is still counted for a
		// moment after its connection was closed, hence the room.
		Concurrency: 2*s.cfg.MaxConnections + 1,

		DisablePreParseMultipartForm: true, // no form is ever read; its files would land on disk
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // else a broken request is quoted, Authorization and all
	}
	return s
}

// newErrorHandler answers what fasthttp could not read, through the same middlewares as everything else.
func (s *Server) newErrorHandler() func(*fasthttp.RequestCtx, error) {
	handle := s.chain(&route{operation: "unreadable", handle: notFound}) // never reached: a refusal stands before it
	return func(ctx *fasthttp.RequestCtx, err error) {
		refuseRest(ctx)
		_ = handle(s.life, &request{http: ctx, refusal: fromRead(err)})
		ctx.Response.SkipBody = ctx.IsHead()
	}
}

// connectionLog takes fasthttp's complaints about connections. They are a client's or the network's doing.
type connectionLog struct{ *slog.Logger }

// Printf is fasthttp's Logger. Its errors quote what could not be read, with the key and the learner that stand in it
// (SecureErrorLogMessage leaves out some of that): of such an error only the type is told, of the network's all.
func (l connectionLog) Printf(format string, args ...any) {
	for i, arg := range args {
		err, isError := arg.(error)
		var network net.Error
		switch {
		case !isError:
		case errors.As(err, &network):
			args[i] = network
		default:
			args[i] = fmt.Sprintf("%T", err)
		}
	}
	l.Debug("connection failed", "error", fmt.Sprintf(format, args...))
}

const (
	// writeBuffer is what an answer leaves in at once: most documents with their headers in one system call and, but for
	// the network's own bounds, one packet, where fasthttp's 4 KiB would take two.
	writeBuffer = 8 << 10
	// mostFrames is how many times its size a body may take on the wire: a byte in a chunk of its own takes six.
	mostFrames = 8
	// idleLinger is how long an idle connection is kept after the last accept: a request may be under way on it.
	idleLinger = time.Second
	// drainInterval is how often connections are looked at while the server stops.
	drainInterval = 20 * time.Millisecond
	// cutTimeout is how long handlers have to return after their context ended.
	cutTimeout = time.Second
)

// Serve answers requests on inner until ctx ends, and then stops: it accepts no more, lets every request in hand finish
// within the grace, and returns nil. It returns an error when the listener breaks or requests had to be cut.
func (s *Server) Serve(ctx context.Context, inner net.Listener) error {
	defer s.end()
	l := newListener(ctx, inner, s.listenerConfig())
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(l) }()
	until := func(stopped <-chan struct{}) error {
		select {
		case err := <-served:
			l.cut()
			return fmt.Errorf("serve: %w", errors.Join(err, inner.Close()))
		case <-stopped:
			return nil
		}
	}
	if err := until(ctx.Done()); err != nil {
		return err
	}
	s.draining.Store(true)
	delay, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainDelay)
	defer cancel()
	if err := until(delay.Done()); err != nil {
		return err
	}
	closeErr := l.Close()
	if err := errors.Join(<-served, closeErr); err != nil {
		s.logger.Warn("closing the listener failed", "error", err)
	}
	return s.drain(l)
}

func (s *Server) listenerConfig() listenerConfig {
	return listenerConfig{
		most: s.cfg.MaxConnections, mostOfOne: s.cfg.MaxConnectionsPerAddress, trusted: s.cfg.TrustedProxies,
		mostRead:    mostFrames*s.cfg.MaxBodyBytes + 2*s.cfg.MaxHeaderBytes,
		readTimeout: s.cfg.ReadTimeout, nextAnswer: s.cfg.IdleTimeout + s.cfg.ReadTimeout + s.cfg.WriteTimeout,
		refuse:  func() []byte { return rawResponse(unavailable(), appendRequestID(nil, nil), keys.Default()) },
		refused: s.metrics.refused.Inc,
	}
}

// drain waits for the last connection to end, helping idle ones along, and cuts what is left after the grace.
func (s *Server) drain(l *listener) error {
	idleUntil := time.Now().Add(idleLinger)
	look := time.NewTicker(drainInterval)
	defer look.Stop()
	wait := func(most time.Duration) (left int) {
		for until := time.Now().Add(most); ; <-look.C {
			// Again and again: a connection may become idle between two looks, and set its own deadline then.
			if left = l.expireIdle(idleUntil); left == 0 || time.Now().After(until) {
				return left
			}
		}
	}
	left := wait(s.cfg.ShutdownGrace)
	if left == 0 {
		return nil
	}
	s.end()
	l.cut()
	wait(cutTimeout)
	return fmt.Errorf("stop: %d connections were cut after %s", left, s.cfg.ShutdownGrace)
}
