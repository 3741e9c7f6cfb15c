package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/reference"
	"examprep.dev/server/httpapi/wire"
	"examprep.dev/server/keys"
)

// Gate decides who sends a request and whether it may pass; *gate.Gate implements it. It keeps no argument.
type Gate interface {
	// Check takes the value of the Authorization header and the client's address.
	Check(ctx context.Context, authorization []byte, client netip.Addr) gate.Decision
	// CheckSession takes the name of a signed-in person.
	CheckSession(ctx context.Context, person []byte) gate.Decision
	// Peek takes the client's address. It takes no token, and the request passes.
	Peek(ctx context.Context, client netip.Addr) gate.Decision
}

// Catalog has the exams; *read.Snapshot implements it. Its methods never wait. Results are shared and must not be changed.
type Catalog interface {
	// Ready reports whether the catalogue was loaded once.
	Ready() bool
	// OnChange calls changed with the list of exams: now, and before each change of the catalogue becomes visible.
	OnChange(changed func([]read.ExamEntry))
	// Overview and the other documents fail with *catalog.NotFoundError or *catalog.UnavailableError.
	Overview(examKey string) (read.Document, error)
	Resources(examKey string) (read.Document, error)
	StudyPath(examKey string) (read.Document, error)
	Papers(examKey string) (read.Document, error)
}

// Attempts is the mock-exam engine; *attempts.Service implements it. A client's mistake is an *attempts.Error.
type Attempts interface {
	Open(ctx context.Context, who keys.Identity, req attempts.OpenRequest) (attempts.Opened, error)
	Page(ctx context.Context, who keys.Identity, req attempts.PageRequest) (attempts.Page, error)
	Submit(ctx context.Context, who keys.Identity, req attempts.SubmitRequest) (attempts.Result, error)
	History(ctx context.Context, who keys.Identity, req attempts.HistoryRequest) (attempts.History, error)
}

// Deps are what a Server answers from. All but Developer and Tracer are required.
type Deps struct {
	Gate     Gate
	Catalog  Catalog
	Attempts Attempts
	// Developer is nil if no OpenID Connect provider is configured. The paths do not exist then.
	Developer  *developer.Deps
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Tracer makes a span of each request that Draw picks (nil: of each). nil: no spans.
	Tracer trace.Tracer
	Draw   func() bool
}

// Server serves the interface. It is used once: [New], then [Server.Serve].
type Server struct {
	cfg      Config
	deps     Deps
	tracing  tracing
	metrics  *metrics
	refusals *refusals
	bodies   *bodyMemory
	http     *fasthttp.Server
	requests sync.Pool

	// life is the context of all requests. It ends when the grace is over.
	life     context.Context //nolint:containedctx // of the server, not of a call
	end      context.CancelFunc
	draining atomic.Bool
}

// New returns a Server. It panics if its metrics are registered already.
func New(cfg Config, deps Deps) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, deps: deps, bodies: newBodyMemory(cfg.MaxBodyMemory)}
	s.tracing = tracing{tracer: deps.Tracer, draw: deps.Draw, trust: cfg.TrustTraceparent}
	s.metrics = newMetrics(deps.Registerer, s.bodies)
	s.refusals = newRefusals(cfg, s.metrics.held)
	s.life, s.end = context.WithCancel(context.Background())
	s.http = &fasthttp.Server{
		Handler:      s.newRouter(routes(cfg, deps)).Handler,
		ErrorHandler: s.unreadable(),
		ConnState:    wire.TrackState,
		Logger:       connectionLog{deps.Logger},

		ReadTimeout:        cfg.ReadTimeout,
		WriteTimeout:       cfg.WriteTimeout,
		IdleTimeout:        cfg.IdleTimeout,
		ReadBufferSize:     cfg.MaxHeaderBytes,
		WriteBufferSize:    writeBuffer,
		StreamRequestBody:  true, // readBody reads bodies
		MaxRequestBodySize: 1,    // and all but the first byte of them
		HeaderReceived:     wire.ReadHeader,
		ExpectHandler:      s.expect,
		// The listener refuses first, in JSON. A connection that lingers takes half a place but a whole worker, and a worker counts for
		// a moment after its connection was closed, so there is room for three times as many.
		Concurrency: 3*cfg.MaxConnections + 1,

		DisablePreParseMultipartForm: true, // no form is read; its files would be written to disk
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // else the log quotes a malformed request, with its Authorization
	}
	return s
}

// writeBuffer holds most responses with their headers, so they take one system call; fasthttp's 4 KiB would take two.
const writeBuffer = 8 << 10

// routes returns all operations. Each GET answers HEAD too, each path OPTIONS.
func routes(cfg Config, deps Deps) []endpoint.Route {
	compressor := codec.NewCompressor(uint64(cfg.CompressedBytes))
	all := newExamHandlers(deps.Catalog, compressor).routes()
	all = append(all, (&attemptHandlers{deps.Attempts}).routes()...)
	all = append(all, reference.Routes(compressor)...)
	if deps.Developer != nil {
		all = append(all, developer.Routes(*deps.Developer, compressor, deps.Logger)...)
	}
	return all
}

// connectionLog takes fasthttp's messages about connections. Their causes are clients and the network.
type connectionLog struct{ *slog.Logger }

// Printf implements fasthttp.Logger. Errors can quote what could not be read, with keys and learners, so only network errors
// are logged with their text; of others the type is.
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
